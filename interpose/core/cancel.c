/* SPDX-License-Identifier: MIT */
#include "interpose/core/cancel.h"

__thread struct cm_cancel cm_cancel;
