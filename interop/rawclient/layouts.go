package rawclient

// layout is a method's numbers and its arguments in order: o octet, h short, l long, q longlong, s short string, S long
// string, t field table, b bit. Reserved ones, which a caller leaves out, are r (short), z (short string) and i (bit).
type layout struct {
	class, id uint16
	arguments string
	content   bool
}

// layouts are the methods of AMQP 0-9-1 and RabbitMQ's extensions of it that the tests use.
var layouts = map[string]layout{
	"connection.start":            {10, 10, "ootSS", false},
	"connection.start-ok":         {10, 11, "tsSs", false},
	"connection.tune":             {10, 30, "hlh", false},
	"connection.tune-ok":          {10, 31, "hlh", false},
	"connection.open":             {10, 40, "szi", false},
	"connection.open-ok":          {10, 41, "s", false},
	"connection.close":            {10, 50, "hshh", false},
	"connection.close-ok":         {10, 51, "", false},
	"connection.blocked":          {10, 60, "s", false},
	"connection.unblocked":        {10, 61, "", false},
	"connection.update-secret":    {10, 70, "Ss", false},
	"connection.update-secret-ok": {10, 71, "", false},
	"channel.open":                {20, 10, "z", false},
	"channel.open-ok":             {20, 11, "S", false},
	"channel.flow":                {20, 20, "b", false},
	"channel.flow-ok":             {20, 21, "b", false},
	"channel.close":               {20, 40, "hshh", false},
	"channel.close-ok":            {20, 41, "", false},
	"exchange.declare":            {40, 10, "rssbbbbbt", false},
	"exchange.declare-ok":         {40, 11, "", false},
	"exchange.delete":             {40, 20, "rsbb", false},
	"exchange.delete-ok":          {40, 21, "", false},
	"exchange.bind":               {40, 30, "rsssbt", false},
	"exchange.bind-ok":            {40, 31, "", false},
	"exchange.unbind":             {40, 40, "rsssbt", false},
	"exchange.unbind-ok":          {40, 51, "", false},
	"queue.declare":               {50, 10, "rsbbbbbt", false},
	"queue.declare-ok":            {50, 11, "sll", false},
	"queue.bind":                  {50, 20, "rsssbt", false},
	"queue.bind-ok":               {50, 21, "", false},
	"queue.purge":                 {50, 30, "rsb", false},
	"queue.purge-ok":              {50, 31, "l", false},
	"queue.delete":                {50, 40, "rsbbb", false},
	"queue.delete-ok":             {50, 41, "l", false},
	"queue.unbind":                {50, 50, "rssst", false},
	"queue.unbind-ok":             {50, 51, "", false},
	"basic.qos":                   {60, 10, "lhb", false},
	"basic.qos-ok":                {60, 11, "", false},
	"basic.consume":               {60, 20, "rssbbbbt", false},
	"basic.consume-ok":            {60, 21, "s", false},
	"basic.cancel":                {60, 30, "sb", false},
	"basic.cancel-ok":             {60, 31, "s", false},
	"basic.publish":               {60, 40, "rssbb", true},
	"basic.return":                {60, 50, "hsss", true},
	"basic.deliver":               {60, 60, "sqbss", true},
	"basic.get":                   {60, 70, "rsb", false},
	"basic.get-ok":                {60, 71, "qbssl", true},
	"basic.get-empty":             {60, 72, "z", false},
	"basic.ack":                   {60, 80, "qb", false},
	"basic.reject":                {60, 90, "qb", false},
	"basic.recover":               {60, 110, "b", false},
	"basic.recover-ok":            {60, 111, "", false},
	"basic.nack":                  {60, 120, "qbb", false},
	"confirm.select":              {85, 10, "b", false},
	"confirm.select-ok":           {85, 11, "", false},
	"tx.select":                   {90, 10, "", false},
	"tx.select-ok":                {90, 11, "", false},
	"tx.commit":                   {90, 20, "", false},
	"tx.commit-ok":                {90, 21, "", false},
	"tx.rollback":                 {90, 30, "", false},
	"tx.rollback-ok":              {90, 31, "", false},
}

// names finds a method's name by its numbers.
var names = func() map[method]string {
	byNumbers := make(map[method]string, len(layouts))
	for name, l := range layouts {
		byNumbers[method{l.class, l.id}] = name
	}
	return byNumbers
}()
