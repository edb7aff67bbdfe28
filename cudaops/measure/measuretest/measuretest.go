// Package measuretest has a virtual clock and a fake GPU, so that what is
// measured is known and no test waits.
package measuretest

import (
	"context"
	"sync"
	"time"
)

// Clock is a virtual clock that moves only on Sleep and Advance. It is safe for
// concurrent use.
type Clock struct {
	mu    sync.Mutex
	now   time.Duration
	slept time.Duration
}

// Now implements measure.Clock.
func (c *Clock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Sleep implements measure.Clock; it returns at once.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d
	c.slept += d
	return nil
}

// Advance moves the clock as an execution does.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d
}

// Slept is the sum of all sleeps.
func (c *Clock) Slept() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slept
}
