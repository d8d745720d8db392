/* SPDX-License-Identifier: MIT */
#include "interpose/core/unusual.h"

_Atomic uint32_t cm_unusual;
