import java.util.Map;

/** Tutorial 1: Hello send | receive. */
final class Hello {
    public static void main(String[] args) throws Exception {
        var connection = Broker.connect();
        var channel = connection.createChannel();
        channel.queueDeclare("hello", false, false, false, Map.of());
        if (args[0].equals("send")) {
            channel.basicPublish("", "hello", null, Broker.bytes("Hello World!"));
            System.out.println(" [x] Sent 'Hello World!'");
            connection.close();
            return;
        }
        System.out.println(" [*] Waiting for messages");
        channel.basicConsume("hello", true, (tag, delivery) -> System.out.println(" [x] Received " + Broker.text(delivery.getBody())), tag -> {});
    }
}
