package measure_test

import (
	"context"
	"fmt"
	"time"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/measure/measuretest"
)

// kernel is a case that was prepared on a device. A real one launches n
// executions between two device events; this one moves a virtual clock.
type kernel struct {
	clock *measuretest.Clock
	each  time.Duration
}

func (k kernel) Block(_ context.Context, n int) (measure.Block, error) {
	d := time.Duration(n) * k.each
	k.clock.Advance(d)
	return measure.Block{Seconds: d.Seconds()}, nil
}

// Once measures one case: it warms up, chooses how many executions make a block
// that the timer can see, and repeats blocks until their spread is small.
func ExampleOnce() {
	clock := &measuretest.Clock{} // measure.NewSystemClock() for real time
	s := measure.Defaults()
	s.MinSamples = 5
	r, err := measure.Once(context.Background(), kernel{clock, 40 * time.Microsecond}, clock, s)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.3f ms, spread %.1f %%, at least 5 samples: %v\n", r.Latency, 100**r.RelStdev, r.Samples >= 5)
	// Output: 0.040 ms, spread 0.0 %, at least 5 samples: true
}
