/* SPDX-License-Identifier: MIT */
#include "interpose/cancel.h"

__thread struct cm_cancel cm_cancel;
