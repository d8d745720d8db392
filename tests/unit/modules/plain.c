/* SPDX-License-Identifier: MIT */
/* A library that says nothing but its name. */
int cm_plain_module(void);

int cm_plain_module(void)
{
	return 0;
}
