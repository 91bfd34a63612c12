package freshtable.driver;

import java.io.UncheckedIOException;
import java.net.SocketException;
import py4j.DefaultGatewayServerListener;
import py4j.Py4JServerConnection;

/**
 * Lets py4j send the end of each answer to Python at once.
 *
 * <p>It writes answers in parts of 8 KiB. Without this, the last part of a longer one stays here
 * until Python's side has confirmed those before it, which it puts off for 40 ms.
 */
public final class PromptAnswers extends DefaultGatewayServerListener {
  @Override
  public void connectionStarted(Py4JServerConnection connection) {
    try {
      connection.getSocket().setTcpNoDelay(true);
    } catch (SocketException cause) {
      throw new UncheckedIOException(cause);
    }
  }
}
