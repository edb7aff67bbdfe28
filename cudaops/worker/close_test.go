package worker

import (
	"context"
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
