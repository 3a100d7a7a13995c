import com.rabbitmq.client.MessageProperties;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** Tutorial 7: Confirms. Publishes with confirms; an unroutable mandatory message is returned. */
final class Confirms {
    public static void main(String[] args) throws Exception {
        var connection = Broker.connect();
        var channel = connection.createChannel();
        String queue = channel.queueDeclare("", false, true, true, Map.of()).getQueue();
        channel.confirmSelect();
        for (int i = 0; i < 200; i++) {
            channel.basicPublish("", queue, true, MessageProperties.PERSISTENT_BASIC, Broker.bytes(i));
        }
        channel.waitForConfirmsOrDie(30_000);
        System.out.println(" [x] " + channel.messageCount(queue) + " messages confirmed");
        var returned = new CompletableFuture<String>();
        channel.addReturnListener(r -> returned.complete(Broker.text(r.getBody()) + ": " + r.getReplyCode() + " " + r.getReplyText()));
        channel.basicPublish("", "nowhere", true, null, Broker.bytes("lost"));
        System.out.println(" [x] returned " + returned.get());
        boolean inOrder = true;
        for (int i = 0; i < 200; i++) {
            inOrder &= Broker.text(channel.basicGet(queue, true).getBody()).equals(Integer.toString(i));
        }
        System.out.println(" [x] in order: " + (inOrder ? "True" : "False"));
        connection.close();
    }
}
