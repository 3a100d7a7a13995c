package amqp091go

// needs names the shipped integration tests that cannot pass yet, each with what it needs. README.md of the folder
// above repeats it for people; TestReadmeNamesEveryListedTest keeps the two together.
var needs = map[string]string{
	"TestIntegrationTxCommit":                      transactions,
	"TestIntegrationTxRollback":                    transactions,
	"TestDeclareArgsRejectToDeadLetterQueue":       deadLetters,
	"TestRabbitMQQueueTTLGet":                      expiry,
	"TestConnection_Close_WhenMemoryAlarmIsActive": rabbitmqctl,

	"TestConnectionRecoveryPublish":                                    httpAPI,
	"TestConnectionRecoveryConsume":                                    httpAPI,
	"TestConnectionRecoveryCustomSASLPlainAuth":                        httpAPI,
	"TestConnectionRecoveryChannelIDReservation":                       httpAPI,
	"TestConnectionRecoveryLifeCycleNotifyStateChange":                 httpAPI,
	"TestConnectionRecoveryCancelInterrupt":                            httpAPI,
	"TestConnectionRecoveryExclusiveQueue":                             httpAPI,
	"TestConnectionRecoveryDeletedQueueSkip":                           httpAPI,
	"TestConnectionRecoveryTopologyOnlyTransient":                      httpAPI,
	"TestConnectionRecoveryMultiChannelTopology":                       httpAPI,
	"TestConnectionRecoveryTopologyAllEnabled":                         httpAPI,
	"TestConnectionRecoveryTopologyDisabled":                           httpAPI,
	"TestConnectionRecoveryExhaustionDoesNotPanic":                     httpAPI,
	"TestConnectionRecoveryAutoDeleteTopologyForgotten":                httpAPI,
	"TestConnectionRecoveryAutoDeleteExchangeCascade":                  httpAPI,
	"TestConnectionRecoverySkipAndContinue":                            httpAPI,
	"TestConnectionRecoveryConsumerNotForgottenAfterFailedResubscribe": httpAPI,
}

// What is not built yet.
const (
	transactions = "transactions (tx.*)"
	deadLetters  = "dead letters"
	expiry       = "message TTL"
	httpAPI      = "RabbitMQ's HTTP API: GET and DELETE /api/connections, by which the test drops its own connection"
	rabbitmqctl  = "rabbitmqctl, by which the test raises a memory alarm"
)
