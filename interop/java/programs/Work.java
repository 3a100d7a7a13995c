import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.MessageProperties;
import java.io.IOException;
import java.util.Map;

/**
 * Tutorial 2: Work task TEXT... | worker [die]. A dot in a task is a tenth of a second of work; a worker told to die does so
 * with its first task in hand.
 */
final class Work {
    public static void main(String[] args) throws Exception {
        var connection = Broker.connect();
        var channel = connection.createChannel();
        channel.queueDeclare("task_queue", true, false, false, Map.of());
        if (args[0].equals("task")) {
            for (int i = 1; i < args.length; i++) {
                channel.basicPublish("", "task_queue", MessageProperties.PERSISTENT_TEXT_PLAIN, Broker.bytes(args[i]));
                System.out.println(" [x] Sent " + args[i]);
            }
            connection.close();
            return;
        }
        boolean dies = args.length > 1;
        channel.basicQos(1);
        System.out.println(" [*] Waiting for messages");
        channel.basicConsume("task_queue", false, (tag, delivery) -> work(channel, delivery, dies), tag -> {});
    }

    private static void work(Channel channel, Delivery delivery, boolean dies) throws IOException {
        String text = Broker.text(delivery.getBody());
        System.out.println(" [x] Received " + text + (delivery.getEnvelope().isRedeliver() ? " again" : ""));
        if (dies) {
            Runtime.getRuntime().halt(1);
        }
        try {
            Thread.sleep(100 * text.chars().filter(c -> c == '.').count());
        } catch (InterruptedException e) {
            throw new IOException(e);
        }
        System.out.println(" [x] Done " + text);
        channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
    }
}
