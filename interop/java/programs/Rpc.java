import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Delivery;
import java.io.IOException;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;

/** Tutorial 6: Rpc server | client N... */
final class Rpc {
    public static void main(String[] args) throws Exception {
        var connection = Broker.connect();
        var channel = connection.createChannel();
        if (args[0].equals("server")) {
            channel.queueDeclare("rpc_queue", false, false, false, Map.of());
            channel.basicQos(1);
            channel.basicConsume("rpc_queue", false, (tag, request) -> answer(channel, request), tag -> {});
            System.out.println(" [x] Awaiting requests");
            return;
        }
        for (int i = 1; i < args.length; i++) {
            System.out.println(" [.] Got " + call(channel, args[i]) + " for fib(" + args[i] + ")");
        }
        connection.close();
    }

    private static void answer(Channel channel, Delivery request) throws IOException {
        int n = Integer.parseInt(Broker.text(request.getBody()));
        System.out.println(" [.] fib(" + n + ")");
        var properties = new BasicProperties.Builder().correlationId(request.getProperties().getCorrelationId()).build();
        channel.basicPublish("", request.getProperties().getReplyTo(), properties, Broker.bytes(fib(n)));
        channel.basicAck(request.getEnvelope().getDeliveryTag(), false);
    }

    private static String call(Channel channel, String n) throws Exception {
        String queue = channel.queueDeclare("", false, true, true, Map.of()).getQueue();
        String id = UUID.randomUUID().toString();
        var reply = new CompletableFuture<String>();
        String consumer = channel.basicConsume(queue, true, (tag, delivery) -> {
            if (id.equals(delivery.getProperties().getCorrelationId())) {
                reply.complete(Broker.text(delivery.getBody()));
            }
        }, tag -> {});
        channel.basicPublish("", "rpc_queue", new BasicProperties.Builder().correlationId(id).replyTo(queue).build(), Broker.bytes(n));
        String answer = reply.get();
        channel.basicCancel(consumer);
        return answer;
    }

    private static int fib(int n) {
        return n < 2 ? n : fib(n - 1) + fib(n - 2);
    }
}
