package cases

// difference is a place where RabbitMQ 3.10 and Understudy answer otherwise, on purpose.
type difference struct{ ours, rabbitmq, reason string }

// differences are all that is accepted, by the key that a test asks with.
var differences = map[string]difference{
	"A7 bad x-match value":                 {"406 PRECONDITION_FAILED - invalid x-match field value \"foo\"; expected all, any, all-with-x, or any-with-x", "406 PRECONDITION_FAILED - Invalid x-match field value <<\"foo\">>; expected", "the refusal names the four values in plain text, not as an Erlang term"},
	"A7 bad x-match type":                  {"406 PRECONDITION_FAILED - invalid x-match field type", "406 PRECONDITION_FAILED - Invalid x-match field type", "as above"},
	"C18 what counts as a failed delivery": {"<nil> 1 1 2", "0 1 2 3", "a nack asks for another try and blames nobody, as in RabbitMQ 4.3; 3.10 counted it"},
	"D6 other queues of a refused message": {"1 3", "1 2 3", "a publish reaches all its queues or, refused, none: the publisher that sends it again doubles nothing"},
	"E16 what a full priority queue drops": {"4/4 4/9 4/14 3/3 3/8 3/13 2/2 2/7 2/12 1/11", "3/13 2/2 2/7 2/12 1/1 1/6 1/11 0/0 0/5 0/10", "the oldest of the lowest priority goes; RabbitMQ drops from the head, which is the highest"},
	"B18 x-death of no tables":             {"dead-lettered", "lost", "what is no death is left out; RabbitMQ's queue crashes on it and loses what is transient"},
	"E2 order of three deaths":             {"c expired 1, b maxlen 1, a expired 1", "c expired 1, a expired 1, b maxlen 1", "the most recent death comes first, and so on down; RabbitMQ 3.10 orders the first alone"},
	"A20 name that is not UTF-8":           {"channel.close 406 PRECONDITION_FAILED - invalid queue name", "connection.close 501 FRAME_ERROR - Malformed UTF-8 in shortstr", "listings, logs and the HTTP API show names: what cannot be shown is refused"},
}
