package nvml

import (
	"context"
	"fmt"
	"strings"
	"time"
)

const (
	// freePoll is the interval in which a device's memory is checked. The driver responds in about a
	// millisecond.
	freePoll = 200 * time.Millisecond
	// Memory that the driver uses on an idle device.
	idleShare = 0.03
	idleLeast = 3 << 29 // 1.5 GiB
)

// WaitFree waits until a device's memory is free except for what the driver uses. After patience, it
// returns an error with the amount of used memory and the processes.
func WaitFree(ctx context.Context, d Device, patience time.Duration) error {
	for waited := time.Duration(0); ; waited += freePoll {
		m, err := d.Memory()
		if err != nil {
			return fmt.Errorf("its memory cannot be read: %w", err)
		}

		if m.Used <= max(idleLeast, int64(idleShare*float64(m.Total))) {
			return nil
		}

		if waited >= patience {
			return fmt.Errorf("%.1f of %.1f GiB are still in use after %v%s", gib(m.Used), gib(m.Total), patience,
				users(d))
		}

		timer := time.NewTimer(freePoll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

func gib(bytes int64) float64 { return float64(bytes) / (1 << 30) }

// users describes the visible processes on a device.
func users(d Device) string {
	procs, err := d.Processes()
	if err != nil || len(procs) == 0 {
		return ", by processes that cannot be seen from here"
	}

	var parts []string
	for _, p := range procs {
		parts = append(parts, fmt.Sprintf("%d (%.1f GiB)", p.PID, gib(p.Memory)))
	}
	return ", by process " + strings.Join(parts, ", ")
}
