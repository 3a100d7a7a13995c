// Where the broker is, and what every program needs of it.
#ifndef BROKER_H
#define BROKER_H

#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <stdbool.h>

// Logs in at the URL; NULL if nobody is there.
amqp_connection_state_t broker_connect(const char *url);

// Ends the program with a text.
void fail(const char *text) __attribute__((noreturn));

// Waits for the next frame of the connection up to so many seconds; false if none came. A lost connection ends the program
// unless lost is given.
bool broker_frame(amqp_connection_state_t c, amqp_frame_t *frame, int seconds, bool *lost);

#endif
