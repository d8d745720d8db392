/* SPDX-License-Identifier: MIT */
/*
 * proof play FILE [TRANSCRIPT] plays a program that is written down proof write SEED COUNT [FLAGS]
 * writes one down proof run SEED COUNT FLAGS [TRANSCRIPT] plays what it would write down
 *
 * FLAGS: c1 to c5 the contexts that are used (with c5 there are four devices), f for free-running
 * threads, i for another process that opens what is exported, p where the library has
 * expandable_segments on, e for a program without an end, l for one with commands, h for one that
 * reads and writes memory of the host behind frees, m for one that does so with mapped and managed
 * memory too, b for one whose devices name each other's memory and nothing waits for that, n for
 * one without peer access, a where each thread drives a device of its own. A written program has
 * them in a line "flags c1f".
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "tests/proof/program.h"

static int usage(void)
{
	(void)fputs("usage: proof play FILE [TRANSCRIPT] | write SEED COUNT [FLAGS] | "
		    "run SEED COUNT FLAGS [TRANSCRIPT]\n",
		    stderr);
	return 2;
}

static void set_flags(struct proof_run *run, const char *flags)
{
	const char *contexts = strchr(flags, 'c');

	run->contexts = contexts ? (unsigned)(contexts[1] - '0') : PROOF_CONTEXTS;
	if (!run->contexts || run->contexts > PROOF_CONTEXTS)
		run->contexts = PROOF_CONTEXTS;
	run->free_running = strchr(flags, 'f') != NULL;
	run->imports = strchr(flags, 'i') != NULL;
	run->pages = strchr(flags, 'p') != NULL;
	run->lends = strchr(flags, 'b') != NULL;
	run->no_peers = strchr(flags, 'n') != NULL;
	run->apart = strchr(flags, 'a') != NULL;
	run->endless = strchr(flags, 'e') != NULL;
	run->commands = strchr(flags, 'l') != NULL;
	run->mapped = strchr(flags, 'm') != NULL;
	run->host_reads = run->mapped || strchr(flags, 'h');
}

static struct proof_op *make_room(size_t count)
{
	struct proof_op *ops = calloc(count ? count : 1, sizeof(*ops));

	if (!ops)
		exit(2);
	return ops;
}

/* Lines that do not begin with a number are for whoever starts us, but for the flags. */
static int read_program(const char *path, struct proof_run *run, struct proof_op **ret_ops)
{
	FILE *file = fopen(path, "r");
	size_t room = 1024, number = 0;
	struct proof_op *ops = make_room(room);
	char line[256];
	int n;

	if (!file) {
		perror(path);
		return 2;
	}
	while (fgets(line, sizeof(line), file)) {
		number++;
		if (!strncmp(line, "flags ", 6))
			set_flags(run, line + 6);
		if (line[0] < '0' || line[0] > '9')
			continue;
		if (run->count == room) {
			room *= 2;
			ops = realloc(ops, room * sizeof(*ops));
			if (!ops)
				exit(2);
		}
		n = proof_parse(line, &ops[run->count]);
		if (n < 0) {
			(void)fprintf(stderr, "%s:%zu: not understood: %s", path, number, line);
			return 2;
		}
		run->count += (size_t)n;
	}
	(void)fclose(file);
	run->ops = *ret_ops = ops;
	return 0;
}

static int play(struct proof_run *run, const char *transcript)
{
	run->transcript = transcript ? fopen(transcript, "w") : NULL;
	if (transcript && !run->transcript) {
		perror(transcript);
		return 2;
	}
	/* It ends with whoever started it, however that happens. */
	if (run->endless)
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	proof_play(run);
	return run->transcript && fclose(run->transcript) ? 2 : 0;
}

int main(int argc, char **argv)
{
	struct proof_run run = {.contexts = PROOF_CONTEXTS};
	struct proof_op *ops = NULL;
	int err;
	size_t i;

	if (argc >= 3 && !strcmp(argv[1], "play")) {
		err = read_program(argv[2], &run, &ops);
		if (!err)
			err = play(&run, argv[3]);
		free(ops);
		return err;
	}
	if (argc < 4)
		return usage();
	run.count = strtoull(argv[3], NULL, 10);
	run.ops = ops = make_room(run.count);
	if (argc > 4)
		set_flags(&run, argv[4]);
	proof_generate(strtoull(argv[2], NULL, 10), ops, &run);
	if (!strcmp(argv[1], "write")) {
		for (i = 0; i < run.count; i++)
			proof_print(stdout, &ops[i]);
		err = 0;
	} else if (!strcmp(argv[1], "run") && argc > 4) {
		err = play(&run, argv[5]);
	} else {
		err = usage();
	}
	free(ops);
	return err;
}
