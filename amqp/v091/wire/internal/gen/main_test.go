package main

import (
	"bytes"
	"os"
	"testing"
)

func TestCheckedInMethodsAreWhatTheSpecificationGenerates(t *testing.T) {
	s, err := readSpec("amqp0-9-1.stripped.extended.xml", "access.xml")
	if err != nil {
		t.Fatal(err)
	}
	want, err := generate(s)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../methods.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("methods.go differs from what the XML generates: run go generate in amqp/v091/wire")
	}
}

func TestUnknownFieldTypeStopsTheGenerator(t *testing.T) {
	s := &spec{Classes: []class{{Name: "c", Methods: []method{{Name: "m", Fields: []field{{Name: "f", Type: "matrix"}}}}}}}
	if err := s.resolve(); err == nil {
		t.Error("a field of type matrix was accepted")
	}
}
