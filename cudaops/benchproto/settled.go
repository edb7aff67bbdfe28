package benchproto

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/ops"
)

const (
	// SettleSeconds is how long the settled protocol runs a shape alone, and
	// LightSeconds how long one that takes less than HeavyMS: the power cap
	// answers within some 40 ms, and its slower swings are those of heavy work.
	SettleSeconds = 0.4
	LightSeconds  = 0.16
	HeavyMS       = 0.03
	// lightOrders is in how many orders the lighter shapes are run: they repeat.
	lightOrders = 2
	// afterHeavy is how long the device recovers between the two.
	afterHeavy = 500 * time.Millisecond
)

func (s Shape) heavy() bool { return s.PublishedMS >= HeavyMS }

// settled runs every shape alone and takes the last half of it: the heavy ones,
// then, after a pause and in the first orders, the lighter ones. With an error it
// returns what was done before.
func (b *Bench) settled(ctx context.Context, seed uint64) (*Run, error) {
	b.orders++
	out := &Run{Protocol: Settled, Seed: seed, Rows: make([]measure.Measured, len(b.Shapes))}
	clock := b.clock()
	begin := clock.Now()
	defer func() { out.Seconds = (clock.Now() - begin).Seconds() }()
	order := rand.New(rand.NewPCG(seed, 1)).Perm(len(b.Shapes))
	for _, heavy := range []bool{true, false} {
		length := SettleSeconds
		if !heavy {
			if b.orders > lightOrders {
				break
			}
			if err := clock.Sleep(ctx, afterHeavy); err != nil {
				return out, err
			}
			length = LightSeconds
		}
		for _, i := range order {
			if b.Shapes[i].heavy() != heavy {
				continue
			}
			r, err := b.alone(ctx, i, length)
			if err != nil {
				return out, err
			}
			out.Rows[i] = r
			out.Visits++
			out.Busy += length
		}
	}
	return out, nil
}

// alone runs one shape for so many seconds.
func (b *Bench) alone(ctx context.Context, i int, length float64) (measure.Measured, error) {
	t, c, err := b.prepare(b.Shapes[i], ops.Graphs{Mode: b.Settings.Graph, Seconds: b.Settings.GraphSeconds()})
	if err != nil {
		return measure.Measured{}, err
	}
	defer t.Close()
	v := measure.Visit{At: b.clock().Now(), Hot: true}
	r, err := measure.Alone(ctx, t, length, func(x measure.Block) { v.Blocks = append(v.Blocks, x) })
	if err != nil {
		return r, fmt.Errorf("%s: %w", c.Label, err)
	}
	if b.Trace != nil {
		b.Trace(i, v)
	}
	return r, nil
}

// settledLatencies are the means over the runs of the settled protocol that had
// the shape, in milliseconds; 0 for shapes that none had.
func settledLatencies(shapes []Shape, runs []Run) []float64 {
	out := make([]float64, len(shapes))
	for i := range shapes {
		var xs []float64
		for _, r := range runs {
			if r.Protocol == Settled && r.Rows[i].Latency > 0 {
				xs = append(xs, r.Rows[i].Latency)
			}
		}
		if len(xs) > 0 {
			out[i] = measure.Mean(xs)
		}
	}
	return out
}

// Floor compares the settled protocol with itself: the mean over every second
// order with the mean over the others. No protocol can be nearer to the truth
// than the truth is to itself, give or take that the truth is the mean of all.
type Floor struct {
	Orders int       `json:"orders"` // of the heavy shapes
	Heavy  Quantiles `json:"heavy"`
	Light  Quantiles `json:"light"`
}

// floor returns nil where there is one order at most.
func floor(shapes []Shape, runs []Run) *Floor {
	var halves [2][]Run
	n := 0
	for _, r := range runs {
		if r.Protocol == Settled {
			halves[n%2] = append(halves[n%2], r)
			n++
		}
	}
	if n < 2 {
		return nil
	}
	a, b := settledLatencies(shapes, halves[0]), settledLatencies(shapes, halves[1])
	var heavy, light []float64
	for i, s := range shapes {
		switch {
		case a[i] == 0 || b[i] == 0:
		case s.heavy():
			heavy = append(heavy, a[i]/b[i])
		default:
			light = append(light, a[i]/b[i])
		}
	}
	return &Floor{Orders: n, Heavy: quantilesOf(heavy), Light: quantilesOf(light)}
}
