package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestCloseReturnsIfProcessCannotBeKilled has a process that is not gone although it was
// killed, as one is that hangs in a driver.
func TestCloseReturnsIfProcessCannotBeKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(context.Background(), PoolSpec{})
		p.wg.Add(1)
		began := time.Now()
		p.Close()
		if waited := time.Since(began); waited != killPatience {
			t.Errorf("waited %v, want %v", waited, killPatience)
		}
		// If it ends later, no goroutine still waits to deliver its events.
		p.events <- slotEvent{}
		p.wg.Done()
	})
}
