import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.locks.LockSupport;
import org.jgroups.BytesMessage;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.Receiver;
import org.jgroups.protocols.SEQUENCER;
import org.jgroups.protocols.TP;
import org.jgroups.protocols.pbcast.GMS;
import org.jgroups.stack.ProtocolStack;
import org.jgroups.util.MessageBatch;

/**
 * A member of a JGroups cluster that takes part in phases, as bench/load/crew.py describes them.
 *
 * <p>java Member PLACE MEMBERS PORT ORDER, where ORDER is sequencer or fifo. The stack is tcp.xml as it
 * is shipped, with SEQUENCER just above GMS if asked for. JGroups has no receipts: what stands for
 * one here is that the sender has its own text back.
 */
public final class Member implements Receiver {
    private final JChannel channel;
    private final int place;
    private final int members;
    private final Thread sender = Thread.currentThread();
    private final BufferedReader heard = new BufferedReader(new InputStreamReader(System.in));

    private int size;
    private boolean stamping;
    private long sent;
    private Stamps sentNs = new Stamps();

    /** Guarded by this object: deliveries of several origins come from several threads. */
    private final long[] last;
    private Stamps[] came;
    private long count;
    private long atNs;
    private volatile long own;
    private volatile long counted;
    private volatile String wrong = "";

    private Member(int place, int members, int port, boolean isSequenced) throws Exception {
        this.place = place;
        this.members = members;
        last = new long[members];
        channel = new JChannel("tcp.xml");
        if (isSequenced) {
            channel.getProtocolStack()
                    .insertProtocol(new SEQUENCER(), ProtocolStack.Position.ABOVE, GMS.class);
        }
        TP transport = channel.getProtocolStack().getTransport();
        transport.setBindAddress(InetAddress.getLoopbackAddress());
        transport.setBindPort(port);
        transport.getDiagnosticsHandler().setEnabled(false);
        channel.setReceiver(this);
    }

    public static void main(String[] asked) throws Exception {
        Member member =
                new Member(
                        Integer.parseInt(asked[0]),
                        Integer.parseInt(asked[1]),
                        Integer.parseInt(asked[2]),
                        asked[3].equals("sequencer"));
        member.channel.connect("bench");
        while (member.channel.getView().size() < member.members) {
            Thread.sleep(20);
        }
        member.takePart();
        member.channel.close();
        System.exit(0);
    }

    private void takePart() throws Exception {
        say("ready");
        String line;
        while ((line = heard.readLine()) != null) {
            String[] phase = line.split(" ");
            prepare(Integer.parseInt(phase[1]), !phase[6].equals("-"));
            say("set");
            heard.readLine();
            long beginNs = System.nanoTime();
            long before = sent;
            send(phase, beginNs);
            say("sent " + (sent - before));
            long goal = Long.parseLong(heard.readLine());
            while (counted < goal) {
                pause();
            }
            if (stamping) {
                keepStamps(Path.of(phase[6]));
            }
            say("done " + beginNs + " " + atNs() + " 0");
            heard.readLine();
            say("right"); // every text was checked as it came
        }
    }

    private synchronized void prepare(int size, boolean stamping) {
        this.size = size;
        this.stamping = stamping;
        sentNs = new Stamps();
        came = new Stamps[members];
        Arrays.setAll(came, origin -> new Stamps());
    }

    private void send(String[] phase, long beginNs) throws Exception {
        long untilNs = beginNs + (long) (Double.parseDouble(phase[2]) * 1e9);
        long most = sent + Long.parseLong(phase[5]);
        switch (phase[0]) {
            case "window" -> fillTheWindow(Long.parseLong(phase[3]), untilNs, most);
            case "paced" -> keepThePace(Double.parseDouble(phase[4]), beginNs, untilNs);
            case "alone" -> {
                if (place == 1) {
                    fillTheWindow(1, untilNs, most);
                }
            }
            default -> throw new IllegalArgumentException(phase[0]);
        }
    }

    private void fillTheWindow(long window, long untilNs, long most) throws Exception {
        while (sent < most && System.nanoTime() < untilNs) {
            if (sent - own >= window) {
                pause();
            } else {
                broadcast();
            }
        }
    }

    private void keepThePace(double perS, long beginNs, long untilNs) throws Exception {
        double gapNs = 1e9 / perS;
        double dueNs = beginNs + gapNs * place / members;
        while (dueNs < untilNs) {
            long earlyNs = (long) dueNs - System.nanoTime();
            if (earlyNs > 0) {
                LockSupport.parkNanos(earlyNs);
            } else {
                broadcast();
                dueNs += gapNs;
            }
        }
        while (own < sent) {
            pause();
        }
    }

    private void broadcast() throws Exception {
        byte[] text = textOf(place, ++sent, size);
        if (stamping) {
            sentNs.add(System.nanoTime());
        }
        channel.send(new BytesMessage(null, text));
    }

    @Override
    public void receive(Message message) {
        deliver(message);
        LockSupport.unpark(sender);
    }

    @Override
    public void receive(MessageBatch batch) {
        for (Message message : batch) {
            deliver(message);
        }
        LockSupport.unpark(sender);
    }

    private synchronized void deliver(Message message) {
        byte[] text = message.getPayload();
        int origin = text[0] - 'a';
        long seq = last[origin] + 1;
        if (!Arrays.equals(text, textOf(origin, seq, size))) {
            wrong = "something else came instead of number " + seq + " of member " + origin;
            return;
        }
        last[origin] = seq;
        count++;
        atNs = System.nanoTime();
        if (stamping) {
            came[origin].add(atNs);
        }
        if (origin == place) {
            own = seq;
        }
        counted = count;
    }

    private void pause() {
        LockSupport.parkNanos(1_000_000);
        if (!wrong.isEmpty()) {
            System.err.println(wrong);
            System.exit(1);
        }
    }

    private synchronized long atNs() {
        return atNs;
    }

    private synchronized void keepStamps(Path folder) throws IOException {
        String mine = String.valueOf((char) ('a' + place));
        sentNs.write(folder.resolve(mine + ".sent"));
        for (int origin = 0; origin < members; origin++) {
            came[origin].write(folder.resolve(mine + "." + (char) ('a' + origin)));
        }
    }

    private static byte[] textOf(int origin, long seq, int size) {
        byte[] text = new byte[size];
        Arrays.fill(text, (byte) '.');
        ByteBuffer.wrap(text).put((byte) ('a' + origin)).putLong(seq);
        return text;
    }

    private static void say(String words) {
        System.out.println(words);
        System.out.flush();
    }

    /** Times in a row. */
    private static final class Stamps {
        private long[] times = new long[1024];
        private int count;

        void add(long time) {
            if (count == times.length) {
                times = Arrays.copyOf(times, 2 * count);
            }
            times[count++] = time;
        }

        void write(Path file) throws IOException {
            ByteBuffer bytes = ByteBuffer.allocate(8 * count).order(ByteOrder.nativeOrder());
            bytes.asLongBuffer().put(times, 0, count);
            Files.write(file, bytes.array());
        }
    }
}
