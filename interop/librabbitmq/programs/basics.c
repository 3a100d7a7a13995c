// One conversation through every part of the protocol; the package programs says what each line shows.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker.h"

enum { MAIN = 1, WORKER = 2, WATCHER = 3, SERVER = 4, DOOMED = 5, GETTER = 6 };

static amqp_connection_state_t c;

static amqp_bytes_t text(const char *s) { return amqp_cstring_bytes(s); }

// The word of a byte string, for printf: "%.*s".
#define WORD(b) (int)(b).len, (char *)(b).bytes

static void expect_ok(const char *what) {
  if (amqp_get_rpc_reply(c).reply_type != AMQP_RESPONSE_NORMAL) fail(what);
}

static void open_channel(int channel) {
  amqp_channel_open(c, channel);
  expect_ok("channel.open");
}

static amqp_queue_declare_ok_t *declare(int channel, const char *name, bool passive, bool durable, bool exclusive, bool auto_delete, amqp_table_t arguments) {
  return amqp_queue_declare(c, channel, text(name), passive, durable, exclusive, auto_delete, arguments);
}

static unsigned waiting(void) {
  amqp_queue_declare_ok_t *ok = declare(MAIN, "basics.q", true, false, false, false, amqp_empty_table);
  if (ok == NULL) fail("passive declare");
  return ok->message_count;
}

static amqp_table_entry_t entry(const char *key, amqp_field_value_kind_t kind) {
  amqp_table_entry_t e = {.key = text(key), .value = {.kind = kind}};
  return e;
}

static amqp_table_entry_t text_entry(const char *key, const char *value) {
  amqp_table_entry_t e = entry(key, AMQP_FIELD_KIND_UTF8);
  e.value.value.bytes = text(value);
  return e;
}

// The arguments of a queue with dead letters, and with a time to live where that is not 0.
static amqp_table_t dead_letters(int ttl) {
  static amqp_table_entry_t entries[3];
  entries[0] = text_entry("x-dead-letter-exchange", "");
  entries[1] = text_entry("x-dead-letter-routing-key", "basics.dead");
  entries[2] = entry("x-message-ttl", AMQP_FIELD_KIND_I32);
  entries[2].value.value.i32 = ttl;
  return (amqp_table_t){.num_entries = ttl > 0 ? 3 : 2, .entries = entries};
}

static void publish(int channel, const char *exchange, const char *key, bool mandatory, const amqp_basic_properties_t *properties, amqp_bytes_t body) {
  if (amqp_basic_publish(c, channel, text(exchange), text(key), mandatory, 0, properties, body)) fail("publish");
}

// The next message of the queue, which may be about to come. The caller destroys it.
static amqp_message_t get(const char *queue) {
  amqp_message_t message;
  for (;;) {
    amqp_rpc_reply_t reply = amqp_basic_get(c, GETTER, text(queue), 1);
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) fail("get");
    if (reply.reply.id == AMQP_BASIC_GET_OK_METHOD) break;
    usleep(20000);
  }
  if (amqp_read_message(c, GETTER, &message, 0).reply_type != AMQP_RESPONSE_NORMAL) fail("the content of a get");
  return message;
}

static amqp_field_value_t *find(amqp_table_t *table, const char *key) {
  for (int i = 0; i < table->num_entries; i++) {
    if (table->entries[i].key.len == strlen(key) && memcmp(table->entries[i].key.bytes, key, strlen(key)) == 0) return &table->entries[i].value;
  }
  fail(key);
}

// The method that the broker sends next on its own account.
static void *await_method(amqp_method_number_t id) {
  amqp_frame_t frame;
  for (;;) {
    if (!broker_frame(c, &frame, 30, NULL)) fail("nothing comes");
    if (frame.frame_type == AMQP_FRAME_METHOD && frame.payload.method.id == id) return frame.payload.method.decoded;
  }
}

static void publishing(void) {
  const char *queues[] = {"basics.dead", "basics.q", "basics.ttl"};
  for (int i = 0; i < 3; i++) amqp_queue_delete(c, MAIN, text(queues[i]), 0, 0);
  amqp_exchange_declare(c, MAIN, text("basics.x"), text("topic"), 0, 1, 0, 0, amqp_empty_table);
  declare(MAIN, "basics.dead", false, true, false, false, amqp_empty_table);
  amqp_queue_declare_ok_t *ok = declare(MAIN, "basics.q", false, true, false, false, dead_letters(0));
  unsigned messages = ok->message_count, consumers = ok->consumer_count;
  amqp_queue_bind(c, MAIN, text("basics.q"), text("basics.x"), text("a.#"), amqp_empty_table);
  expect_ok("bind");
  printf("declared: %u messages, %u consumers\n", messages, consumers);
  amqp_confirm_select(c, MAIN);
  amqp_basic_properties_t persistent = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG, .delivery_mode = 2};
  for (int i = 1; i <= 100; i++) {
    char body[8];
    snprintf(body, sizeof body, "%d", i);
    publish(MAIN, "basics.x", "a.b", true, &persistent, text(body));
  }
  uint64_t confirmed = 0;
  while (confirmed < 100) {
    amqp_basic_ack_t *ack = await_method(AMQP_BASIC_ACK_METHOD);
    confirmed = ack->multiple ? ack->delivery_tag : confirmed + 1;
  }
  printf("confirmed: %" PRIu64 " of 100\n", confirmed);
  printf("waiting: %u\n", waiting());
}

static bool distinct[101];
static uint64_t tags[10];
static int bodies[10], held;
static char again[32];

static void take(void) {
  amqp_envelope_t envelope;
  struct timeval patience = {30, 0};
  amqp_maybe_release_buffers(c);
  if (amqp_consume_message(c, &envelope, &patience, 0).reply_type != AMQP_RESPONSE_NORMAL) fail("no delivery");
  char body[8] = {0};
  memcpy(body, envelope.message.body.bytes, envelope.message.body.len);
  distinct[atoi(body)] = true;
  if (envelope.redelivered) strcat(again, body);
  if (held < 10) {
    tags[held] = envelope.delivery_tag;
    bodies[held] = atoi(body);
  } else {
    amqp_basic_ack(c, WORKER, envelope.delivery_tag, 0);
  }
  held++;
  amqp_destroy_envelope(&envelope);
}

static void consuming(void) {
  open_channel(WORKER);
  amqp_basic_qos(c, WORKER, 0, 10, 0);
  amqp_basic_consume(c, WORKER, text("basics.q"), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
  expect_ok("consume");
  while (held < 10) take();
  printf("prefetch 10: %d in hand, %u waiting\n", held, waiting());
  amqp_basic_ack(c, WORKER, tags[7], 1);
  amqp_basic_nack(c, WORKER, tags[8], 0, 1);
  amqp_basic_reject(c, WORKER, tags[9], 0);
  while (held < 10 + 90 + 1) take();
  int count = 0;
  for (int i = 1; i <= 100; i++) count += distinct[i];
  printf("drained: %d distinct, again: %s\n", count, again);
  amqp_channel_close(c, WORKER, AMQP_REPLY_SUCCESS);
}

static void dead_letter(void) {
  amqp_message_t message = get("basics.dead");
  amqp_table_t *death = &find(&message.properties.headers, "x-death")->value.array.entries[0].value.table;
  amqp_bytes_t reason = find(death, "reason")->value.bytes, queue = find(death, "queue")->value.bytes;
  printf("dead: %.*s, %.*s from %.*s\n", WORD(message.body), WORD(reason), WORD(queue));
  amqp_destroy_message(&message);
}

// The code with which the broker has closed the channel of the last step on the connection.
static int refused(amqp_connection_state_t on) {
  amqp_rpc_reply_t reply = amqp_get_rpc_reply(on);
  if (reply.reply_type != AMQP_RESPONSE_SERVER_EXCEPTION || reply.reply.id != AMQP_CHANNEL_CLOSE_METHOD) return 0;
  int code = ((amqp_channel_close_t *)reply.reply.decoded)->reply_code;
  amqp_channel_close_ok_t ok = {0};
  amqp_send_method(on, DOOMED, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok);
  return code;
}

static void refusals(void) {
  publish(MAIN, "basics.x", "zzz", true, NULL, text("lost"));
  amqp_basic_return_t *returned = await_method(AMQP_BASIC_RETURN_METHOD);
  printf("returned: %u %.*s %.*s\n", returned->reply_code, WORD(returned->reply_text), WORD(returned->routing_key));
  amqp_message_t message;
  amqp_read_message(c, MAIN, &message, 0);
  amqp_destroy_message(&message);
  await_method(AMQP_BASIC_ACK_METHOD);

  declare(MAIN, "basics.mine", false, false, true, false, amqp_empty_table);
  expect_ok("an exclusive queue");
  amqp_connection_state_t other = broker_connect(getenv("AMQP_URL"));
  if (other == NULL) fail("a second connection");
  amqp_channel_open(other, DOOMED);
  amqp_queue_declare(other, DOOMED, text("basics.mine"), 1, 0, 0, 0, amqp_empty_table);
  printf("exclusive: %d\n", refused(other));
  amqp_connection_close(other, AMQP_REPLY_SUCCESS);
  amqp_destroy_connection(other);
  open_channel(DOOMED);
  declare(DOOMED, "basics.q", false, true, false, false, amqp_empty_table);
  printf("inequivalent: %d\n", refused(c));
  open_channel(DOOMED);
  declare(DOOMED, "basics.none", true, false, false, false, amqp_empty_table);
  printf("missing: %d\n", refused(c));
}

static amqp_table_t every_type(void) {
  static amqp_table_entry_t inner, all[10];
  static amqp_field_value_t elements[2];
  inner = text_entry("k", "v");
  elements[0].kind = AMQP_FIELD_KIND_I32;
  elements[0].value.i32 = 1;
  elements[1].kind = AMQP_FIELD_KIND_UTF8;
  elements[1].value.bytes = text("two");
  all[0] = text_entry("s", "text");
  all[1] = entry("i", AMQP_FIELD_KIND_I32);
  all[1].value.value.i32 = -7;
  all[2] = entry("l", AMQP_FIELD_KIND_I64);
  all[2].value.value.i64 = INT64_C(1) << 40;
  all[3] = entry("b", AMQP_FIELD_KIND_BOOLEAN);
  all[3].value.value.boolean = 1;
  all[4] = entry("d", AMQP_FIELD_KIND_F64);
  all[4].value.value.f64 = 1.5;
  all[5] = entry("t", AMQP_FIELD_KIND_TIMESTAMP);
  all[5].value.value.u64 = 1700000000;
  all[6] = entry("x", AMQP_FIELD_KIND_BYTES);
  all[6].value.value.bytes = (amqp_bytes_t){2, "\x00\xff"};
  all[7] = entry("n", AMQP_FIELD_KIND_TABLE);
  all[7].value.value.table = (amqp_table_t){1, &inner};
  all[8] = entry("a", AMQP_FIELD_KIND_ARRAY);
  all[8].value.value.array = (amqp_array_t){2, elements};
  all[9] = entry("v", AMQP_FIELD_KIND_VOID);
  return (amqp_table_t){10, all};
}

static void print_headers(amqp_table_t *h) {
  amqp_bytes_t s = find(h, "s")->value.bytes, x = find(h, "x")->value.bytes, k = find(&find(h, "n")->value.table, "k")->value.bytes;
  amqp_field_value_t *a = find(h, "a")->value.array.entries;
  printf("headers: s=%.*s i=%d l=%" PRId64 " b=%s d=%g t=%" PRIu64 " x=", WORD(s), find(h, "i")->value.i32, find(h, "l")->value.i64,
         find(h, "b")->value.boolean ? "true" : "false", find(h, "d")->value.f64, find(h, "t")->value.u64);
  for (size_t i = 0; i < x.len; i++) printf("%02x", ((unsigned char *)x.bytes)[i]);
  printf(" n=k:%.*s a=%d,%.*s v=%s\n", WORD(k), a[0].value.i32, WORD(a[1].value.bytes), find(h, "v")->kind == AMQP_FIELD_KIND_VOID ? "null" : "something");
}

static void content(void) {
  amqp_basic_properties_t p = {
      ._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_CONTENT_ENCODING_FLAG | AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG |
                AMQP_BASIC_PRIORITY_FLAG | AMQP_BASIC_CORRELATION_ID_FLAG | AMQP_BASIC_REPLY_TO_FLAG | AMQP_BASIC_EXPIRATION_FLAG |
                AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_TIMESTAMP_FLAG | AMQP_BASIC_TYPE_FLAG | AMQP_BASIC_USER_ID_FLAG | AMQP_BASIC_APP_ID_FLAG,
      .content_type = text("text/plain"), .content_encoding = text("utf-8"), .headers = every_type(), .delivery_mode = 2, .priority = 5,
      .correlation_id = text("corr"), .reply_to = text("reply"), .expiration = text("60000"), .message_id = text("msg"), .timestamp = 1700000000,
      .type = text("kind"), .user_id = text("guest"), .app_id = text("app")};
  publish(MAIN, "", "basics.q", false, &p, amqp_empty_bytes);
  amqp_message_t m = get("basics.q");
  p = m.properties;
  print_headers(&p.headers);
  printf("properties: %.*s %.*s %d %d %.*s %.*s %.*s %.*s %" PRIu64 " %.*s %.*s %.*s\n", WORD(p.content_type), WORD(p.content_encoding), p.delivery_mode,
         p.priority, WORD(p.correlation_id), WORD(p.reply_to), WORD(p.expiration), WORD(p.message_id), p.timestamp, WORD(p.type), WORD(p.user_id), WORD(p.app_id));
  amqp_destroy_message(&m);

  amqp_bytes_t large = amqp_bytes_malloc(5 << 20);
  for (size_t i = 0; i < large.len; i++) ((unsigned char *)large.bytes)[i] = i;
  publish(MAIN, "", "basics.q", false, NULL, large);
  m = get("basics.q");
  bool same = m.body.len == large.len && memcmp(m.body.bytes, large.bytes, large.len) == 0;
  printf("large: %zu bytes, %s\n", m.body.len, same ? "the same" : "changed");
  amqp_destroy_message(&m);
  amqp_bytes_free(large);
}

static void cancelled(void) {
  open_channel(WATCHER);
  declare(WATCHER, "basics.gone", false, false, false, false, amqp_empty_table);
  amqp_basic_consume(c, WATCHER, text("basics.gone"), text("watcher"), 0, 1, 0, amqp_empty_table);
  amqp_queue_delete(c, MAIN, text("basics.gone"), 0, 0);
  amqp_basic_cancel_t *cancel = await_method(AMQP_BASIC_CANCEL_METHOD);
  printf("cancelled: %.*s\n", WORD(cancel->consumer_tag));
}

static void rpc(void) {
  open_channel(SERVER);
  declare(SERVER, "basics.rpc", false, false, false, true, amqp_empty_table);
  amqp_basic_consume(c, SERVER, text("basics.rpc"), amqp_empty_bytes, 0, 1, 0, amqp_empty_table);
  amqp_basic_consume(c, MAIN, text("amq.rabbitmq.reply-to"), amqp_empty_bytes, 0, 1, 0, amqp_empty_table);
  amqp_basic_properties_t p = {._flags = AMQP_BASIC_REPLY_TO_FLAG | AMQP_BASIC_CORRELATION_ID_FLAG, .reply_to = text("amq.rabbitmq.reply-to"), .correlation_id = text("1")};
  publish(MAIN, "", "basics.rpc", false, &p, text("21"));
  for (;;) {
    await_method(AMQP_BASIC_DELIVER_METHOD);
    amqp_message_t m;
    amqp_read_message(c, SERVER, &m, 0);
    char body[16] = {0};
    memcpy(body, m.body.bytes, m.body.len < 15 ? m.body.len : 15);
    int doubled = 2 * atoi(body);
    p = (amqp_basic_properties_t){._flags = AMQP_BASIC_CORRELATION_ID_FLAG, .correlation_id = m.properties.correlation_id};
    char *to = strndup(m.properties.reply_to.bytes, m.properties.reply_to.len);
    snprintf(body, sizeof body, "%d", doubled);
    publish(SERVER, "", to, false, &p, text(body));
    free(to);
    amqp_destroy_message(&m);
    break;
  }
  await_method(AMQP_BASIC_DELIVER_METHOD);
  amqp_message_t answer;
  amqp_read_message(c, MAIN, &answer, 0);
  if (memcmp(answer.properties.correlation_id.bytes, "1", 1) != 0) fail("the answer to something else");
  printf("rpc: %.*s\n", WORD(answer.body));
  amqp_destroy_message(&answer);
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  c = broker_connect(getenv("AMQP_URL"));
  if (c == NULL) fail("connect");
  open_channel(MAIN);
  open_channel(GETTER); // no confirms come between the frames there
  publishing();
  consuming();
  dead_letter();
  refusals();
  declare(MAIN, "basics.ttl", false, false, false, false, dead_letters(50));
  publish(MAIN, "", "basics.ttl", false, NULL, text("late"));
  dead_letter();
  content();
  cancelled();
  rpc();
  if (amqp_connection_close(c, AMQP_REPLY_SUCCESS).reply_type != AMQP_RESPONSE_NORMAL) fail("close");
  amqp_destroy_connection(c);
  puts("closed");
}
