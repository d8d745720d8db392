/* SPDX-License-Identifier: MIT */
/*
 * Another process beside a test of the simulated driver, at the other end of a socket. It is made
 * before the driver is started, which no fork survives.
 */
#ifndef CM_TESTS_SIM_OTHER_PROCESS_H
#define CM_TESTS_SIM_OTHER_PROCESS_H

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Starts it, with what `serve` returns as its exit status; that is to end when its socket does.
 * Ends the test if it cannot. */
static inline pid_t start_other(int (*serve)(int socket), int *ret_socket)
{
	int sockets[2];
	pid_t child;

	if (setenv("CUDASIM", "memory:64M", 1) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		_exit(1);
	child = fork();
	if (child < 0)
		_exit(1);
	if (child == 0) {
		close(sockets[0]);
		_exit(serve(sockets[1]));
	}
	close(sockets[1]);
	*ret_socket = sockets[0];
	return child;
}

/* Waits for its end: 0 if it went well. */
static inline int end_other(pid_t child, int socket)
{
	int status = -1;

	close(socket);
	waitpid(child, &status, 0);
	return status;
}

#endif
