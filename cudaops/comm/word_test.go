//go:build linux

package comm

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestTheLauncherIsHeard checks that the worker waits for the launcher's message about an ended rank,
// longer than usual if necessary, but not forever.
func TestTheLauncherIsHeard(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]time.Duration{
		0: endGrace / 4, endGrace / 8: endGrace / 4, 5 * endGrace / 8: 3 * endGrace / 4, time.Hour: endGrace,
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &launched{done: make(chan struct{})}
			before := l.said()
			speak := time.AfterFunc(after, func() { _, _ = l.Write([]byte("srun: error: node1: task 3: Killed\n")) })
			defer speak.Stop()
			began := time.Now()
			l.awaitWord(before, endGrace)
			if took := time.Since(began); took != want {
				t.Errorf("a word after %v was awaited for %v, want %v", after, took, want)
			}
		})
	}
}
