import java.util.Map;

/** Tutorials 3, 4 and 5: Logs emit TYPE KEY TEXT | receive TYPE KEY... (TYPE is fanout, direct or topic). */
final class Logs {
    public static void main(String[] args) throws Exception {
        var connection = Broker.connect();
        var channel = connection.createChannel();
        String exchange = "logs_" + args[1];
        channel.exchangeDeclare(exchange, args[1]);
        if (args[0].equals("emit")) {
            channel.basicPublish(exchange, args[2], null, Broker.bytes(args[3]));
            System.out.println(" [x] Sent " + args[2] + ":" + args[3]);
            connection.close();
            return;
        }
        String queue = channel.queueDeclare("", false, true, true, Map.of()).getQueue();
        if (args.length == 2) {
            channel.queueBind(queue, exchange, "");
        }
        for (int i = 2; i < args.length; i++) {
            channel.queueBind(queue, exchange, args[i]);
        }
        channel.basicConsume(queue, true,
            (tag, delivery) -> System.out.println(" [x] " + delivery.getEnvelope().getRoutingKey() + ":" + Broker.text(delivery.getBody())), tag -> {});
        System.out.println(" [*] Waiting for logs");
    }
}
