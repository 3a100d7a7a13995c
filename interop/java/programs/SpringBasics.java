import com.rabbitmq.client.Channel;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import org.springframework.amqp.core.AcknowledgeMode;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.Declarables;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.core.QueueBuilder;
import org.springframework.amqp.core.TopicExchange;
import org.springframework.amqp.rabbit.annotation.EnableRabbit;
import org.springframework.amqp.rabbit.annotation.Exchange;
import org.springframework.amqp.rabbit.annotation.QueueBinding;
import org.springframework.amqp.rabbit.annotation.RabbitListener;
import org.springframework.amqp.rabbit.config.DirectRabbitListenerContainerFactory;
import org.springframework.amqp.rabbit.config.RetryInterceptorBuilder;
import org.springframework.amqp.rabbit.config.SimpleRabbitListenerContainerFactory;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory.ConfirmType;
import org.springframework.amqp.rabbit.connection.ConnectionFactory;
import org.springframework.amqp.rabbit.connection.CorrelationData;
import org.springframework.amqp.rabbit.core.RabbitAdmin;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.listener.RabbitListenerEndpointRegistry;
import org.springframework.amqp.rabbit.retry.RejectAndDontRequeueRecoverer;
import org.springframework.amqp.rabbit.transaction.RabbitTransactionManager;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.transaction.support.TransactionTemplate;

/** SpringBasics: what Spring AMQP makes of the Java client, a line per step; the test says what each shows. */
final class SpringBasics {
    private static final long PATIENCE_MS = 40_000;

    private final AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext(Application.class);
    private final RabbitTemplate template = context.getBean(RabbitTemplate.class);
    private final RabbitAdmin admin = context.getBean(RabbitAdmin.class);
    private final Listeners listeners = context.getBean(Listeners.class);

    public static void main(String[] args) throws Exception {
        var basics = new SpringBasics();
        basics.publish();
        basics.refusals();
        basics.retry();
        basics.requeue();
        basics.fanout();
        basics.reply();
        basics.batch();
        basics.transactions();
        basics.restart();
        basics.redeclare();
        basics.context.close();
        System.out.println("closed");
    }

    private void publish() throws Exception {
        System.out.println("declared: " + String.join(" ", admin.getQueueInfo("spring.q").getName(), admin.getQueueInfo("spring.dead").getName()));
        int confirmed = 0;
        for (int i = 1; i <= 20; i++) {
            confirmed += confirm(send("spring.x", "a." + i, Integer.toString(i))) ? 1 : 0;
        }
        for (int i = 1; i <= 20; i++) {
            listeners.next();
        }
        System.out.println("confirmed: " + confirmed + ", received by " + admin.getQueueInfo("spring.q").getConsumerCount());
    }

    private CorrelationData send(String exchange, String key, String body) {
        var confirm = new CorrelationData();
        template.convertAndSend(exchange, key, body, confirm);
        return confirm;
    }

    private static boolean confirm(CorrelationData data) throws Exception {
        return data.getFuture().get(PATIENCE_MS, TimeUnit.MILLISECONDS).ack();
    }

    private void refusals() throws Exception {
        var nowhere = send("spring.x", "zzz", "lost");
        confirm(nowhere);
        var returned = nowhere.getReturned();
        System.out.println("returned: " + returned.getReplyCode() + " " + returned.getReplyText() + " " + returned.getRoutingKey());
        System.out.println("full: " + confirm(send("", "spring.full", "1")) + ", then " + confirm(send("", "spring.full", "2")));
        System.out.println("missing exchange: " + confirm(send("spring.none", "", "lost"))); // the reason is whatever Spring heard first
    }

    /** A listener that fails is called again by the interceptor, then the message is rejected for good. */
    private void retry() throws Exception {
        send("spring.x", "a.b", "poison");
        int calls = 0;
        while (listeners.calls.getOrDefault("poison", 0) < 3) {
            listeners.next();
            calls++;
        }
        var dead = template.receive("spring.dead", PATIENCE_MS);
        var death = dead.getMessageProperties().getXDeathHeader().get(0);
        System.out.println("dead: after " + calls + " calls, " + death.get("reason") + " from " + death.get("queue"));
    }

    /** The direct container, with acknowledgements by hand. */
    private void requeue() throws Exception {
        send("", "spring.manual", "task");
        System.out.println("by hand: " + listeners.next() + ", " + listeners.next());
    }

    /** Two listeners with queues that the server names. */
    private void fanout() throws Exception {
        send("spring.fan", "", "all");
        var first = listeners.next();
        System.out.println("fanout: " + first + ", " + listeners.next());
    }

    private void reply() {
        System.out.println("direct reply: " + template.convertSendAndReceive("", "spring.rpc", "ping"));
        var temporary = new RabbitTemplate(template.getConnectionFactory());
        temporary.setUseTemporaryReplyQueues(true);
        temporary.setReplyTimeout(PATIENCE_MS);
        System.out.println("reply over a queue: " + temporary.convertSendAndReceive("", "spring.rpc", "pong"));
    }

    private void batch() throws Exception {
        for (int i = 1; i <= 3; i++) {
            send("", "spring.batch", Integer.toString(i));
        }
        System.out.println("batch: " + listeners.next());
    }

    private void transactions() {
        var factory = new CachingConnectionFactory(Broker.uri());
        var transacted = new RabbitTemplate(factory);
        transacted.setChannelTransacted(true);
        var transaction = new TransactionTemplate(new RabbitTransactionManager(factory));
        transaction.executeWithoutResult(status -> {
            transacted.convertAndSend("", "spring.tx", "never");
            status.setRollbackOnly();
        });
        var rolledBack = admin.getQueueInfo("spring.tx").getMessageCount();
        transaction.executeWithoutResult(status -> {
            transacted.convertAndSend("", "spring.tx", "one");
            transacted.convertAndSend("", "spring.tx", "two");
        });
        System.out.println("transactions: " + rolledBack + " rolled back, then " + transacted.receiveAndConvert("spring.tx") + " "
            + transacted.receiveAndConvert("spring.tx"));
        factory.destroy();
    }

    private void restart() throws Exception {
        var container = context.getBean(RabbitListenerEndpointRegistry.class).getListenerContainer("simple");
        container.stop();
        var stopped = admin.getQueueInfo("spring.q").getConsumerCount();
        send("spring.x", "a.b", "waits");
        container.start();
        System.out.println("restarted: " + stopped + " consumers, then " + listeners.next());
    }

    /** A queue that is deleted under its listeners is declared again by them. */
    private void redeclare() throws Exception {
        admin.deleteQueue("spring.q");
        until(() -> admin.getQueueInfo("spring.q") != null && admin.getQueueInfo("spring.q").getConsumerCount() == 2);
        send("spring.x", "a.b", "found");
        System.out.println("redeclared: " + listeners.next());
    }

    private static void until(Supplier<Boolean> holds) throws Exception {
        for (long end = System.currentTimeMillis() + PATIENCE_MS; !holds.get(); Thread.sleep(20)) {
            if (System.currentTimeMillis() > end) {
                throw new TimeoutException();
            }
        }
    }

    /** What the listeners of the application do. */
    static class Listeners {
        final Map<String, Integer> calls = new ConcurrentHashMap<>();
        private final BlockingQueue<String> received = new LinkedBlockingQueue<>();

        String next() throws Exception {
            var body = received.poll(PATIENCE_MS, TimeUnit.MILLISECONDS);
            if (body == null) {
                throw new TimeoutException("no message comes");
            }
            return body;
        }

        @RabbitListener(id = "simple", queues = "spring.q")
        void simple(String body) {
            calls.merge(body, 1, Integer::sum);
            received.add(body);
            if (body.equals("poison")) {
                throw new IllegalStateException(body);
            }
        }

        @RabbitListener(containerFactory = "direct", queues = "spring.manual", ackMode = "MANUAL")
        void manual(Message message, Channel channel) throws Exception {
            var properties = message.getMessageProperties();
            received.add(Broker.text(message.getBody()) + (properties.getRedelivered() ? " again" : ""));
            if (properties.getRedelivered()) {
                channel.basicAck(properties.getDeliveryTag(), false);
            } else {
                channel.basicNack(properties.getDeliveryTag(), false, true);
            }
        }

        @RabbitListener(containerFactory = "direct", bindings = @QueueBinding(value = @org.springframework.amqp.rabbit.annotation.Queue,
            exchange = @Exchange(value = "spring.fan", type = "fanout")))
        void one(String body) {
            received.add(body);
        }

        @RabbitListener(bindings = @QueueBinding(value = @org.springframework.amqp.rabbit.annotation.Queue,
            exchange = @Exchange(value = "spring.fan", type = "fanout")))
        void two(String body) {
            received.add(body);
        }

        @RabbitListener(containerFactory = "direct", queuesToDeclare = @org.springframework.amqp.rabbit.annotation.Queue("spring.rpc"))
        String upper(String body) {
            return body.toUpperCase(java.util.Locale.ROOT);
        }

        @RabbitListener(containerFactory = "batches", queues = "spring.batch")
        void batch(List<String> bodies) {
            received.add(String.join(" ", bodies));
        }
    }

    /** The application, as Spring is told of it. */
    @Configuration
    @EnableRabbit
    static class Application {
        @Bean
        CachingConnectionFactory connections() {
            var factory = new CachingConnectionFactory(Broker.uri());
            factory.setPublisherConfirmType(ConfirmType.CORRELATED);
            factory.setPublisherReturns(true);
            return factory;
        }

        @Bean
        RabbitAdmin admin(ConnectionFactory connections) {
            return new RabbitAdmin(connections);
        }

        @Bean
        RabbitTemplate template(ConnectionFactory connections) {
            var template = new RabbitTemplate(connections);
            template.setMandatory(true);
            template.setReplyTimeout(PATIENCE_MS);
            return template;
        }

        @Bean
        Declarables topology() {
            var exchange = new TopicExchange("spring.x");
            var queue = QueueBuilder.durable("spring.q").deadLetterExchange("").deadLetterRoutingKey("spring.dead").build();
            return new Declarables(exchange, queue, BindingBuilder.bind(queue).to(exchange).with("a.#"), new Queue("spring.dead"),
                QueueBuilder.durable("spring.full").maxLength(1L).overflow(QueueBuilder.Overflow.rejectPublish).build(),
                QueueBuilder.durable("spring.manual").quorum().build(), new Queue("spring.batch"), new Queue("spring.tx"));
        }

        @Bean
        SimpleRabbitListenerContainerFactory rabbitListenerContainerFactory(ConnectionFactory connections) {
            var factory = simple(connections);
            factory.setConcurrentConsumers(2);
            factory.setPrefetchCount(5);
            factory.setAdviceChain(RetryInterceptorBuilder.stateless().maxRetries(2).backOffOptions(10, 1, 10)
                .recoverer(new RejectAndDontRequeueRecoverer()).build());
            return factory;
        }

        @Bean
        SimpleRabbitListenerContainerFactory batches(ConnectionFactory connections) {
            var factory = simple(connections);
            factory.setBatchListener(true);
            factory.setConsumerBatchEnabled(true);
            factory.setBatchSize(3);
            return factory;
        }

        private static SimpleRabbitListenerContainerFactory simple(ConnectionFactory connections) {
            var factory = new SimpleRabbitListenerContainerFactory();
            factory.setConnectionFactory(connections);
            factory.setRecoveryInterval(100L);
            factory.setFailedDeclarationRetryInterval(100L);
            return factory;
        }

        @Bean
        DirectRabbitListenerContainerFactory direct(ConnectionFactory connections) {
            var factory = new DirectRabbitListenerContainerFactory();
            factory.setConnectionFactory(connections);
            factory.setAcknowledgeMode(AcknowledgeMode.AUTO);
            factory.setConsumersPerQueue(1);
            return factory;
        }

        @Bean
        Listeners listeners() {
            return new Listeners();
        }
    }
}
