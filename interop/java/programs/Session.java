import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.Recoverable;
import com.rabbitmq.client.RecoveryListener;
import com.rabbitmq.client.ShutdownSignalException;
import com.rabbitmq.client.impl.recovery.AutorecoveringChannel;
import com.rabbitmq.client.impl.recovery.RecoveryAwareChannelN;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Session: works in the session of AMQP_SESSION, through two failovers, with the client's automatic recovery; the package
 * programs says what each line shows. Nothing but the client property knows of sessions. The client shows each tag raised by an
 * offset of its own after a recovery; what it got on the wire is that less.
 */
final class Session implements RecoveryListener {
    private static final int HELD = 100;
    private Channel publisher;
    private AutorecoveringChannel worker;
    private List<Delivery> held = new ArrayList<>();
    private int published;

    public static void main(String[] args) throws Exception {
        new Session().run();
    }

    private void run() throws Exception {
        var factory = new ConnectionFactory();
        factory.setNetworkRecoveryInterval(100);
        var properties = factory.getClientProperties();
        properties.put("x-session-id", System.getenv("AMQP_SESSION"));
        factory.setClientProperties(properties);
        var connection = factory.newConnection(Broker.addresses());
        publisher = connection.createChannel();
        publisher.addShutdownListener(Session::tell);
        publisher.queueDeclare("session.own", false, true, false, Map.of());
        publisher.queueDeclare("session.q", true, false, false, Map.of());
        publisher.confirmSelect();
        publisher.basicPublish("", "session.own", null, Broker.bytes("mine"));
        publish();
        worker = (AutorecoveringChannel) connection.createChannel();
        worker.addShutdownListener(Session::tell);
        worker.basicQos(HELD);
        ((Recoverable) connection).addRecoveryListener(this);
        worker.basicConsume("session.q", false, (tag, delivery) -> take(delivery), tag -> {});
    }

    /** Says it if the broker closes a channel. */
    private static void tell(ShutdownSignalException reason) {
        if (!reason.isHardError()) {
            System.out.println("channel closed: " + reason.getMessage());
        }
    }

    private void publish() throws Exception {
        for (int n = 1; n <= HELD; n++) {
            var properties = MessageProperties.MINIMAL_PERSISTENT_BASIC.builder().headers(Map.of("x-dedup-id", "message-" + n)).build();
            publisher.basicPublish("", "session.q", true, properties, Broker.bytes(n));
        }
        publisher.waitForConfirmsOrDie(30_000);
        System.out.println("published");
        synchronized (this) {
            published++;
        }
    }

    private synchronized void take(Delivery delivery) throws IOException {
        var envelope = delivery.getEnvelope();
        long onWire = envelope.getDeliveryTag() - ((RecoveryAwareChannelN) worker.getDelegate()).getActiveDeliveryTagOffset();
        System.out.println("held " + Broker.text(delivery.getBody()) + " " + onWire + (envelope.isRedeliver() ? " again" : ""));
        held.add(delivery);
        settle();
    }

    /** Acks all once they are held for the third time, and the third publishing is over. */
    private synchronized void settle() throws IOException {
        if (held.size() < HELD || published < 3) {
            return;
        }
        for (var d : held) {
            worker.basicAck(d.getEnvelope().getDeliveryTag(), false);
        }
        System.out.println("settled");
    }

    @Override
    public synchronized void handleRecoveryStarted(Recoverable connection) {
        held = new ArrayList<>();
    }

    @Override
    public void handleRecovery(Recoverable connection) {
        try {
            System.out.println("own " + publisher.messageCount("session.own"));
            publish();
            settle();
        } catch (Exception e) {
            System.out.println("after the recovery: " + e);
        }
    }
}
