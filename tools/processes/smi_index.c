/* SPDX-License-Identifier: MIT */
#include "tools/processes/smi_index.h"

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "stats/layout.h"

struct cards {
	uint64_t place[CM_DEVICES_MAX];
	size_t count;
};

/* The place as a number in the order of PCI ids. Their domain has four digits or eight, and the
 * letters are of either case. False: it is no PCI id. */
static bool parse(const char *pci, uint64_t *ret_place)
{
	unsigned domain, bus, device, function;

	/* NOLINTNEXTLINE(cert-err34-c): no number has more digits than fit */
	if (sscanf(pci, "%8x:%2x:%2x.%1x", &domain, &bus, &device, &function) != 4)
		return false;
	*ret_place = (uint64_t)domain << 16 | bus << 8 | device << 3 | function;
	return true;
}

static void read_cards(const char *folder, struct cards *cards)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;

	cards->count = 0;
	if (!dir)
		return;
	while (cards->count < CM_DEVICES_MAX && (entry = readdir(dir)))
		cards->count += parse(entry->d_name, &cards->place[cards->count]);
	(void)closedir(dir);
}

static int index_of(const struct cards *cards, const char *pci)
{
	uint64_t place;
	bool found = false;
	int before = 0;
	size_t i;

	if (!parse(pci, &place))
		return -1;
	for (i = 0; i < cards->count; i++) {
		found |= cards->place[i] == place;
		before += cards->place[i] < place;
	}
	return found ? before : -1;
}

int cm_smi_index_in(const char *folder, const char *pci)
{
	struct cards cards;

	read_cards(folder, &cards);
	return index_of(&cards, pci);
}

int cm_smi_index(const char *pci)
{
	static struct cards cards;
	static bool done;

	if (!done)
		read_cards(CM_SMI_CARDS, &cards);
	done = true;
	return index_of(&cards, pci);
}
