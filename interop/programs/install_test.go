package programs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestHalfDoneInstallationIsMadeAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	torn := errors.New("network gone")
	err := fillOnce(dir, func(dir string) error {
		if err := os.WriteFile(filepath.Join(dir, "half"), nil, 0o644); err != nil {
			return err
		}
		return torn
	})
	if !errors.Is(err, torn) {
		t.Fatal(err)
	}
	fills := 0
	for range 2 {
		if err := fillOnce(dir, func(string) error { fills++; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if fills != 1 {
		t.Errorf("filled %d times after the torn one, want once", fills)
	}
	if _, err := os.Stat(filepath.Join(dir, "half")); err == nil {
		t.Error("what the torn one left is still there")
	}
}
