package amqp091go

// needs names the shipped integration tests that cannot pass yet, each with what it needs. README.md of the folder
// above repeats it for people; TestReadmeNamesEveryListedTest keeps the two together.
var needs = map[string]string{
	"TestConnection_Close_WhenMemoryAlarmIsActive": rabbitmqctl,
}

// What is not built yet.
const (
	rabbitmqctl = "rabbitmqctl, by which the test raises a memory alarm"
)
