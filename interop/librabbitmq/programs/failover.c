// failover COUNT: publishes and consumes numbered messages while a node dies. The library does one connection; to find another
// node, and to publish again what was not confirmed, is the application's.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker.h"

enum { PUBLISHING = 1, CONSUMING = 2, BATCH = 10 };

static int count, confirmed_count, received_count;
static bool *published, *confirmed, *received, told;

static void tell_when_done(void) {
  if (told || confirmed_count < count || received_count < count) return;
  told = true;
  puts("done");
}

// A batch under way: the numbers that the confirms from tag base on stand for.
struct batch {
  uint64_t base;
  int numbers[BATCH], length, open;
  bool settled[BATCH];
};

static void settle(struct batch *b, uint64_t tag, bool multiple) {
  for (int i = 0; i < b->length; i++) {
    uint64_t own = b->base + i;
    if (b->settled[i] || own > tag || (own < tag && !multiple)) continue;
    b->settled[i] = true;
    b->open--;
    confirmed[b->numbers[i]] = true;
    confirmed_count++;
    printf("confirmed %d\n", b->numbers[i]);
  }
}

// Takes one delivery whose method frame has come; false if the connection is lost.
static bool deliver(amqp_connection_state_t c, amqp_basic_deliver_t *d) {
  uint64_t tag = d->delivery_tag;
  bool again = d->redelivered;
  amqp_message_t message;
  if (amqp_read_message(c, CONSUMING, &message, 0).reply_type != AMQP_RESPONSE_NORMAL) return false;
  char text[16] = {0};
  memcpy(text, message.body.bytes, message.body.len < 15 ? message.body.len : 15);
  amqp_destroy_message(&message);
  int n = atoi(text);
  printf("received %d%s\n", n, again ? " again" : "");
  if (!received[n]) received_count++;
  received[n] = true;
  return amqp_basic_ack(c, CONSUMING, tag, 0) == AMQP_STATUS_OK;
}

// Takes one frame; false if the connection is lost.
static bool turn(amqp_connection_state_t c, struct batch *b, int seconds) {
  amqp_frame_t frame;
  bool lost = false;
  amqp_maybe_release_buffers(c);
  if (!broker_frame(c, &frame, seconds, &lost)) return !lost;
  if (frame.frame_type != AMQP_FRAME_METHOD) return true;
  switch (frame.payload.method.id) {
    case AMQP_BASIC_ACK_METHOD: {
      amqp_basic_ack_t *ack = frame.payload.method.decoded;
      settle(b, ack->delivery_tag, ack->multiple);
      return true;
    }
    case AMQP_BASIC_DELIVER_METHOD:
      return deliver(c, frame.payload.method.decoded);
    default: // the broker closes the connection
      return false;
  }
}

static bool publish(amqp_connection_state_t c, struct batch *b) {
  amqp_basic_properties_t persistent = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG, .delivery_mode = 2};
  for (int i = 0; i < b->length; i++) {
    char text[16];
    int n = b->numbers[i];
    snprintf(text, sizeof text, "%d", n);
    if (published[n]) printf("published %d again\n", n);
    published[n] = true;
    if (amqp_basic_publish(c, PUBLISHING, amqp_empty_bytes, amqp_cstring_bytes("failover.q"), 1, 0, &persistent, amqp_cstring_bytes(text))) return false;
  }
  while (b->open > 0) {
    if (!turn(c, b, 30)) return false;
  }
  return true;
}

static bool prepare(amqp_connection_state_t c) {
  amqp_bytes_t queue = amqp_cstring_bytes("failover.q");
  return amqp_channel_open(c, PUBLISHING) && amqp_channel_open(c, CONSUMING) &&
         amqp_queue_declare(c, PUBLISHING, queue, 0, 1, 0, 0, amqp_empty_table) && amqp_confirm_select(c, PUBLISHING) &&
         amqp_basic_qos(c, CONSUMING, 0, 20, 0) && amqp_basic_consume(c, CONSUMING, queue, amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
}

// Publishes what is not confirmed and consumes, until the connection is lost.
static void work(amqp_connection_state_t c) {
  if (!prepare(c)) return;
  struct batch b = {.base = 1};
  for (int n = 1; n <= count;) {
    b.length = 0;
    for (; n <= count && b.length < BATCH; n++) {
      if (!confirmed[n]) b.numbers[b.length++] = n;
    }
    b.open = b.length;
    memset(b.settled, 0, sizeof b.settled);
    if (!publish(c, &b)) return;
    b.base += b.length;
  }
  b.length = 0;
  do tell_when_done();
  while (turn(c, &b, 1));
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (argc < 2) fail("failover COUNT");
  count = atoi(argv[1]);
  published = calloc(count + 1, sizeof *published);
  confirmed = calloc(count + 1, sizeof *confirmed);
  received = calloc(count + 1, sizeof *received);
  for (int connections = 0;;) {
    char *urls = strdup(getenv("AMQP_URLS"));
    for (char *url = strtok(urls, ","); url != NULL; url = strtok(NULL, ",")) {
      amqp_connection_state_t c = broker_connect(url);
      if (c == NULL) continue;
      if (connections++ > 0) puts("reconnected");
      work(c);
      amqp_destroy_connection(c);
    }
    free(urls);
    usleep(50000);
  }
}
