package collect

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"

	"aicplan/cudaops/worker"
)

// examples finds a case for each kind of cases, in tasks by task. Cases with equal texts, flags, zeros and ones are one
// kind. Its example is the case whose other numbers are nearest to the middle of their columns, of those that can run.
//
// Frameworks have torch compile code for any shape, and it is tuned to the first shape that a process meets: by
// factors of up to eight for vLLM's quantization to fp8. Sizes of 0 and 1 have code of their own. So every worker
// compiles for the example.
func (j *job) examples() (tasks []int32) {
	n := len(j.tasks)
	far := make([]float64, n) // sum over the columns of the distance from the middle, as a share
	kinds := make([][]byte, n)
	for col := range j.cases.Columns() {
		value := map[int]float64{} // by code
		var codes []int            // without those that make a kind
		for i := range n {
			code := j.cases.Code(i, col)
			if _, known := value[code]; known {
				continue
			}

			value[code] = 0
			if number, ok := j.cases.Plain(i, col).(json.Number); ok && number != "0" && number != "1" {
				value[code], _ = number.Float64()
				codes = append(codes, code)
			}
		}

		slices.SortFunc(codes, func(a, b int) int { return cmp.Compare(value[a], value[b]) })
		place := make(map[int]float64, len(codes))
		for at, code := range codes {
			// Of two places in the middle, the lower one is nearer.
			place[code] = math.Abs(float64(2*at-len(codes))+1.25) / float64(len(codes))
		}
		for i := range n {
			code := j.cases.Code(i, col)
			if p, number := place[code]; number {
				far[i] += p
			} else {
				kinds[i] = binary.AppendVarint(kinds[i], int64(code))
			}
		}
	}

	best := map[string]int32{}
	for i := range n {
		at, known := best[string(kinds[i])]
		t := &j.tasks[i]
		if t.n > 0 && j.units[t.first].bar == nil && (!known || far[i] < far[at]) {
			best[string(kinds[i])] = int32(i)
		}
	}
	tasks = make([]int32, n)
	for i := range n {
		at, known := best[string(kinds[i])]
		if !known {
			at = int32(i)
		}
		tasks[i] = at
	}
	return tasks
}

// example returns the example for a case, or nil if workers do not compile or it failed.
func (s *source) example(task int) *worker.Example {
	if !s.run.kind().NamesOps {
		return nil
	}
	if s.examples == nil {
		s.examples = s.job.examples()
	}
	at := int(s.examples[task])
	if at < 0 {
		return nil // it has killed a worker
	}
	t := s.job.tasks[at]
	var points []int
	for u := t.first; u < t.first+t.n; u++ {
		if s.job.units[u].state == failed {
			return nil
		}
		points = append(points, int(s.job.units[u].point))
	}
	cases := s.job.cases
	return &worker.Example{ID: cases.ID(at), Params: cases.ParamsJSON(at), Sweep: s.job.sweepOf(at).json(points)}
}
