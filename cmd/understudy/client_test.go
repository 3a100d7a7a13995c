package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

func TestAnInterruptedVerbSaysThatItMayHaveWorked(t *testing.T) {
	asked, over := make(chan struct{}, 1), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-over
	}))
	defer s.Close()
	defer close(over)
	cmd := program(t, "link", "switchover", "--admin-url", s.URL)
	var text bytes.Buffer
	cmd.Stderr = &text
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer killed.Stop()
	<-asked
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the exit code says it
	if code := cmd.ProcessState.ExitCode(); code != exitFailure || !strings.Contains(text.String(), "interrupted: "+s.URL+" may have done") {
		t.Errorf("exit %d: %s", code, text.String())
	}
}
