//go:build interop

package amqplib

import "testing"

func TestSessionOutlivesTheSourceUnderAmqplib(t *testing.T) { client(t).TakeOver(t) }

func TestSessionOutlivesTheSourceUnderAmqplibsOwnRecovery(t *testing.T) {
	variant(t, "recovering").TakeOver(t)
}
