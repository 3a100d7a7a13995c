package amqp091go

// needs names the shipped integration tests that cannot pass yet, each with what it needs. README.md of the folder
// above repeats it for people; TestReadmeNamesEveryListedTest keeps the two together.
var needs = map[string]string{
	"TestIntegrationTxCommit":                      transactions,
	"TestIntegrationTxRollback":                    transactions,
	"TestDeclareArgsRejectToDeadLetterQueue":       deadLetters,
	"TestRabbitMQQueueTTLGet":                      expiry,
	"TestConnection_Close_WhenMemoryAlarmIsActive": rabbitmqctl,
}

// What is not built yet.
const (
	transactions = "transactions (tx.*)"
	deadLetters  = "dead letters"
	expiry       = "message TTL"
	rabbitmqctl  = "rabbitmqctl, by which the test raises a memory alarm"
)
