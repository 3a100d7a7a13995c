//go:build interop

package pika

import "testing"

func TestSessionOutlivesTheSourceUnderPika(t *testing.T) { client(t).TakeOver(t) }
