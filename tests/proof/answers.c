/* SPDX-License-Identifier: MIT */
#include "tests/proof/answers.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void proof_wrong(const struct proof_hand *hand, const char *format, ...)
{
	char text[400];
	va_list args;
	int n;

	n = snprintf(text, sizeof(text), "operation %zu, ", hand->op + 1);
	va_start(args, format);
	n += vsnprintf(text + n, sizeof(text) - (size_t)n - 1, format, args);
	va_end(args);
	text[n++] = '\n';
	(void)!write(STDERR_FILENO, text, (size_t)n);
	_exit(99);
}

void proof_read_tolerated(void)
{
	const char *text = getenv("PROOF_TOLERATE"), *lost = getenv("PROOF_LOST");
	size_t i;

	proof_state.lost = lost ? strtoull(lost, NULL, 10) : 0;

	for (i = 0; text && *text && i < PROOF_TOLERATED; i++) {
		proof_state.tolerated[i] = atoi(text);
		text = strchr(text, ',');
		text = text ? text + 1 : NULL;
	}
}

bool proof_is_tolerated(CUresult res)
{
	size_t i;

	for (i = 0; i < PROOF_TOLERATED && proof_state.tolerated[i]; i++)
		if ((int)res == proof_state.tolerated[i]) {
			proof_state.broken = true;
			return true;
		}
	/* An error has consequences: what was not made can't be used. */
	return proof_state.broken;
}

bool proof_is_of_captures(CUresult res)
{
	return res >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && res <= CUDA_ERROR_CAPTURED_EVENT;
}

bool proof_heard(const struct proof_hand *hand, const char *what, CUresult res)
{
	if (proof_state.run.transcript)
		(void)fprintf(proof_state.run.transcript, "%zu %s %d\n", hand->op + 1, what,
			      (int)res);
	if (res == CUDA_SUCCESS)
		return true;
	if (!proof_is_tolerated(res) &&
	    !(proof_is_of_captures(res) && !proof_state.run.free_running))
		proof_wrong(hand, "%s answered %d", what, (int)res);
	return false;
}

bool proof_heard_memory(const struct proof_hand *hand, const char *what, CUresult res)
{
	if (res == CUDA_ERROR_OUT_OF_MEMORY) {
		if (proof_state.run.transcript)
			(void)fprintf(proof_state.run.transcript, "%zu %s %d\n", hand->op + 1, what,
				      (int)res);
		return false;
	}
	return proof_heard(hand, what, res);
}
