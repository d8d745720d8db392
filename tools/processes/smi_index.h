/* SPDX-License-Identifier: MIT */
/*
 * The number by which nvidia-smi and NVML name a card: they count the cards of the machine, or of
 * the container, in the order of their PCI ids, while a process counts what CUDA_VISIBLE_DEVICES
 * leaves it. The driver lists the cards in a folder of /proc, so neither has to be asked.
 */
#ifndef CM_TOOLS_PROCESSES_SMI_INDEX_H
#define CM_TOOLS_PROCESSES_SMI_INDEX_H

#define CM_SMI_CARDS "/proc/driver/nvidia/gpus"

/* The number of the card of this PCI id, "0000:65:00.0"; -1: `folder` does not list it. */
int cm_smi_index_in(const char *folder, const char *pci);

/* The same of this machine, whose folder is read once. */
int cm_smi_index(const char *pci);

#endif
