package measure

import (
	"context"
	"math"
)

// Alone runs a target back to back for so many seconds, in blocks of some 2 ms,
// and returns the mean of the last half, so the result does not depend on what ran
// before. seen, if not nil, is called with every block.
func Alone(ctx context.Context, t Burster, length float64, seen func(Block)) (Measured, error) {
	q := max(t.Quantum(), 1)
	b := Burst{Warm: q, Executions: q, Blocks: 1}
	var each, clocks, at []float64
	var bound *bool // nil if unknown
	executed, spent, graph := 0, 0.0, true
	for spent < length {
		blocks, err := t.Burst(ctx, b)
		if err != nil {
			return Measured{}, err
		}
		if err := checkBlocks(blocks, b); err != nil {
			return Measured{}, err
		}
		for _, x := range blocks {
			n := executions(x, b)
			if x.Executions = n; seen != nil {
				seen(x)
			}
			executed += n
			spent += x.Seconds
			each, at = append(each, x.Seconds/float64(n)), append(at, spent)
			clocks = append(clocks, x.ClockMHz)
			graph = graph && x.UsedGraph
			merge(&bound, x.LaunchBound)
		}
		executed += b.Warm
		per := max(each[len(each)-1], 1e-9)
		n := int(min(max(math.Ceil(hotBlock/per/float64(q)), 1), maxLaunch)) * q
		b = Burst{Executions: n, Blocks: int(min(max(math.Ceil((length-spent)/(float64(n)*per)), 1), maxHotBlocks))}
	}
	first := 0
	for first < len(at)-1 && at[first] < length/2 {
		first++
	}
	r := Measured{
		Passes: 1, Executions: executed, UsedGraph: graph, Protocol: ProtocolAdaptive, OperatingPoint: PointSustained,
		ClockMHz: Mean(clocks[first:]), LaunchBound: bound,
	}
	r.statistics([]float64{Mean(each[first:])}, each[first:], []float64{hotBlock})
	return r, nil
}
