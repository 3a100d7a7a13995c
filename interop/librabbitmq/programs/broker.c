#include "broker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

void fail(const char *text) {
  printf("failed: %s\n", text);
  exit(1);
}

// The library does not say by itself that its user wants to hear of cancelled consumers.
static amqp_table_t properties(void) {
  static amqp_table_entry_t capability, capabilities;
  capability.key = amqp_cstring_bytes("consumer_cancel_notify");
  capability.value.kind = AMQP_FIELD_KIND_BOOLEAN;
  capability.value.value.boolean = 1;
  capabilities.key = amqp_cstring_bytes("capabilities");
  capabilities.value.kind = AMQP_FIELD_KIND_TABLE;
  capabilities.value.value.table = (amqp_table_t){1, &capability};
  return (amqp_table_t){1, &capabilities};
}

amqp_connection_state_t broker_connect(const char *url) {
  char *copy = strdup(url);
  struct amqp_connection_info info;
  if (amqp_parse_url(copy, &info) != AMQP_STATUS_OK) fail("the address");
  amqp_connection_state_t c = amqp_new_connection();
  amqp_socket_t *socket = amqp_tcp_socket_new(c);
  struct timeval patience = {10, 0};
  amqp_table_t own = properties();
  bool there = amqp_socket_open_noblock(socket, info.host, info.port, &patience) == AMQP_STATUS_OK &&
               amqp_login_with_properties(c, "/", 0, AMQP_DEFAULT_FRAME_SIZE, 0, &own, AMQP_SASL_METHOD_PLAIN, info.user, info.password).reply_type == AMQP_RESPONSE_NORMAL;
  free(copy);
  if (there) return c;
  amqp_destroy_connection(c);
  return NULL;
}

bool broker_frame(amqp_connection_state_t c, amqp_frame_t *frame, int seconds, bool *lost) {
  struct timeval patience = {seconds, 0};
  int status = amqp_simple_wait_frame_noblock(c, frame, &patience);
  if (status == AMQP_STATUS_OK) return true;
  if (status != AMQP_STATUS_TIMEOUT) {
    if (lost == NULL) fail(amqp_error_string2(status));
    *lost = true;
  }
  return false;
}
