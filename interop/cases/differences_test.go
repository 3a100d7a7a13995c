package cases

// difference is a place where RabbitMQ 3.10 and Understudy answer otherwise, and why that is accepted.
type difference struct{ ours, rabbitmq, reason string }

// differences are all that are accepted, by the key with which a test asks. The answers are beginnings of frames, or what
// the test makes of them.
var differences = map[string]difference{
	"A7 bad x-match value": {
		ours:     `406 PRECONDITION_FAILED - invalid x-match field value "foo"; expected all, any, all-with-x, or any-with-x`,
		rabbitmq: `406 PRECONDITION_FAILED - Invalid x-match field value <<"foo">>; expected`,
		reason:   "the value stands as text, not as an Erlang term",
	},
	"A7 bad x-match type": {
		ours:     "406 PRECONDITION_FAILED - invalid x-match field type",
		rabbitmq: "406 PRECONDITION_FAILED - Invalid x-match field type",
		reason:   "as for the value",
	},
	"A20 name that is not UTF-8": {
		ours:     "channel.close 406 PRECONDITION_FAILED - invalid queue name",
		rabbitmq: "connection.close 501 FRAME_ERROR - Malformed UTF-8 in shortstr",
		reason:   "listings, logs and the HTTP API show names, so that such a one is refused; the frame is well formed and the connection need not end",
	},
	"A25 passive declare without any permission": {
		ours:     "channel.close 403 ACCESS_REFUSED - configure access to queue ",
		rabbitmq: "queue.declare-ok",
		reason:   "who may do nothing with a queue does not learn how many messages are in it; RabbitMQ asks for a permission from 4.2.6 on",
	},
	"A25 text of a refusal": {
		ours:     "403 ACCESS_REFUSED - configure access to queue '",
		rabbitmq: "403 ACCESS_REFUSED - access to queue '",
		reason:   "the text names the permission that is missing, as later versions of RabbitMQ have it",
	},
	"B5 frame_max of 100": {
		ours:     "connection.close 530 NOT_ALLOWED - negotiated frame_max = 100 is lower than the minimum allowed value (4096)",
		rabbitmq: "end",
		reason:   "the client is told why; RabbitMQ cuts the connection and writes a line in its log",
	},
	"B5 introduction of 7 kB": {
		ours:     "connection.tune",
		rabbitmq: "end",
		reason:   "a client may say at length who it is: until 4.1 RabbitMQ took 4096 octets before the tuning, now it takes 8192 too",
	},
	"B9 types L and U": {
		ours:     "basic.get-ok",
		rabbitmq: "connection.close 541 INTERNAL_ERROR",
		reason:   "the specification has both types, and headers that nothing need read pass as they are",
	},
	"B15 more channels than proposed": {
		ours:     "connection.close 530 NOT_ALLOWED - negotiated channel_max = 2048 is higher than the maximum allowed value (2047)",
		rabbitmq: "end",
		reason:   "the client is told why",
	},
	"B15 B16 no limits": {
		ours:     "connection.open-ok",
		rabbitmq: "end",
		reason:   "0 says that the client has no limit of its own, and the server's holds; RabbitMQ refuses 0 where it has a limit itself",
	},
	"B18 x-death of no tables": {
		ours:     "dead-lettered",
		rabbitmq: "lost",
		reason:   "what is no death is left out; RabbitMQ's queue crashes on it and loses what is transient",
	},
	"C18 what counts as a failed delivery": {
		ours:     "<nil> 1 1 2",
		rabbitmq: "0 1 2 3",
		reason:   "a nack asks for another try and blames nobody, as in RabbitMQ 4.3; 3.10 counted it, and told of a count of 0",
	},
	"C18 closed channels": {
		ours:     "<nil> <nil> <nil>",
		rabbitmq: "0 1 2",
		reason:   "who closes a channel in good order has not failed; 3.10 counts every return, RabbitMQ 4.3 what is certain to have failed",
	},
	"D6 other queues of a refused message": {
		ours:     "1 3",
		rabbitmq: "1 2 3",
		reason:   "a publish reaches all its queues or, refused, none: a publisher that sends it again doubles nothing",
	},
	"E2 order of three deaths": {
		ours:     "c expired 1, b maxlen 1, a expired 1",
		rabbitmq: "c expired 1, a expired 1, b maxlen 1",
		reason:   "the most recent death comes first, and so on down; RabbitMQ 3.10 minds the first alone",
	},
	"E16 what a full priority queue drops": {
		ours:     "4/4 4/9 4/14 3/3 3/8 3/13 2/2 2/7 2/12 1/11",
		rabbitmq: "3/13 2/2 2/7 2/12 1/1 1/6 1/11 0/0 0/5 0/10",
		reason:   "the oldest of the lowest priority goes; RabbitMQ drops from the head, where the highest is",
	},
}
