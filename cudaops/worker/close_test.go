package worker

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// TestCloseDoesNotWaitForTheKernel has a process that is not gone although it was
// killed, as one is that hangs in a driver.
func TestCloseDoesNotWaitForTheKernel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(context.Background(), PoolSpec{})
		p.wg.Add(1)
		began := time.Now()
		p.Close()
		if waited := time.Since(began); waited != killPatience {
			t.Errorf("waited %v, want %v", waited, killPatience)
		}
		// When it ends after all, nobody is left behind that waits to be heard.
		p.events <- slotEvent{}
		p.wg.Done()
	})
}

// TestStarted tells a process that carries a worker's marker from one that does
// not.
func TestStarted(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the environment of a process can be read on linux only")
	}
	if Started(os.Getpid()) {
		t.Error("this test is taken for a worker")
	}
	for marker, want := range map[string]bool{EnvMarker + "=a:1:2:w0:x": true, "OTHER=1": false} {
		cmd := exec.Command("cat")
		cmd.Env = []string{marker}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// What comes back says that it runs.
		if _, err := in.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if got := Started(cmd.Process.Pid); got != want {
			t.Errorf("%s: %v, want %v", marker, got, want)
		}
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}
