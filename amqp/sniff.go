package amqp

import (
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/understudy-mq/understudy/amqp/v091"
)

// lingerTimeout is how long a refused peer has to read the answer.
const lingerTimeout = time.Second

// sniff reads a connection's protocol header. Anything that no header begins with is answered, as soon as that is
// clear, with the one that is spoken here; the error says what came.
func sniff(c net.Conn, until time.Time) error {
	_ = c.SetDeadline(until)
	var b [len(v091.Header)]byte
	for n := 0; ; {
		k, err := c.Read(b[n:])
		n += k
		got := string(b[:n])
		if !strings.HasPrefix(v091.Header, got) && !strings.HasPrefix(v091.HeaderOld, got) {
			refuse(c)
			return fmt.Errorf("protocol header begins with %q", got)
		}
		if n == len(b) {
			return c.SetDeadline(time.Time{})
		}
		if err != nil {
			return fmt.Errorf("after %d octets of the protocol header: %w", n, err)
		}
	}
}

// refuse answers with our header and lets the peer read it: to close with its octets unread would reset the connection.
func refuse(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(lingerTimeout))
	if _, err := io.WriteString(c, v091.Header); err != nil {
		return
	}
	if w, ok := c.(interface{ CloseWrite() error }); ok && w.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, c)
	}
}
