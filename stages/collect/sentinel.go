package collect

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/sink/catalog"
	"aicplan/sink/table"
	"aicplan/stages/executors"
)

// Columns about nodes that rows have where the executor has sentinels.
const (
	DeviationColumn = "node_deviation" // share by which the node differs from the median of all nodes
	DiffersColumn   = "node_differs"   // whether that is more than the limit
)

// sentinelCases picks cases that every task measures: spread over the grid, the
// same for the same cases. Where cases need different numbers of GPUs they are of
// the smallest, which all tasks have.
func (r *running) sentinelCases(n int) ([]int, error) {
	var from []int
	for i := range r.job.tasks {
		if t := &r.job.tasks[i]; t.selected && r.job.units[t.first].barred() == "" {
			from = append(from, i)
		}
	}
	gpus, err := r.gpusOf(r.job, from)
	if err != nil {
		return nil, err
	}
	least := math.MaxInt
	for _, i := range from {
		least = min(least, gpus[i])
	}
	from = slices.DeleteFunc(from, func(i int) bool { return gpus[i] > least })
	n = min(n, len(from))
	out := make([]int, n)
	for i := range out {
		out[i] = from[(2*i+1)*len(from)/(2*n)]
	}
	return out, nil
}

// sentinelContext is where results of sentinels are kept: beside the journal of
// the cases, under the same conditions.
func sentinelContext(of checkpoint.Context) checkpoint.Context {
	of.Op = "sentinels-" + of.Op
	return of
}

// sentinels measures the task's sentinels. One that fails is said and left out:
// the node is then not judged by it.
func (r *running) sentinels(ctx context.Context, set worker.Settings) error {
	if len(r.part.Sentinels) == 0 {
		return nil
	}
	spec := r.planned.cases.Spec()
	journal, err := r.rc.Store.Journal(sentinelContext(r.Context(spec, r.env)))
	if err != nil {
		return err
	}
	src := &sentinelSource{r: r, journal: journal, op: r.opName(spec.Op), deadline: max(r.limits.first, r.limits.floor)}
	for _, place := range r.part.Sentinels {
		if place >= 0 && place < len(r.job.tasks) {
			src.queue = append(src.queue, place)
		}
	}
	if err := r.pool.Run(ctx, set, src); err != nil {
		return err
	}
	return src.err
}

// sentinelSource hands the sentinels to the pool.
type sentinelSource struct {
	r        *running
	journal  *checkpoint.Journal
	op       string
	deadline time.Duration
	queue    []int
	err      error
}

// Pending implements worker.CaseSource.
func (s *sentinelSource) Pending() int {
	if s.r.stopped() || s.err != nil {
		return 0
	}
	return len(s.queue)
}

// Next implements worker.CaseSource.
func (s *sentinelSource) Next() *worker.Task {
	if s.Pending() == 0 {
		return nil
	}
	at := s.queue[0]
	s.queue = s.queue[1:]
	cases := s.r.planned.cases
	c := worker.Case{ID: cases.ID(at), Op: s.op, Params: cases.ParamsJSON(at), Attempt: 1}
	if cases.SweepColumns() != nil {
		c.Sweep = cases.Sweep(at).JSON()
	}
	return &worker.Task{Case: c, Deadline: s.deadline}
}

// Done implements worker.CaseSource.
func (s *sentinelSource) Done(o worker.Outcome) {
	if o.Failure != nil || len(o.Rows) == 0 {
		why := "it gave no row"
		if o.Failure != nil {
			why = firstLine(o.Failure.Message)
		}
		s.r.rc.Events.Message(s.r.rc.Address, "warn", "a sentinel was not measured on "+executors.NodeName()+": "+why)
		return
	}
	s.r.part.mark(&o)
	e := entry{Rows: o.Rows, Attempts: 1, Worker: o.Slot, Seconds: o.Seconds, At: o.Ended.UTC().Format(time.RFC3339Nano)}
	if o.Hello != nil {
		e.DeviceUUID = o.Hello.DeviceUUID
	}
	payload, err := e.encode()
	if err == nil {
		id := fmt.Sprintf("%s/%s/%s/%s", s.r.part.Task.Order.ID, executors.NodeName(), e.DeviceUUID, o.Task.Case.ID)
		err = s.journal.Append(checkpoint.Entry{ID: id, Kind: checkpoint.Measured, Payload: payload})
	}
	if err != nil && s.err == nil {
		s.err = fmt.Errorf("the result of a sentinel could not be stored: %w", err)
	}
}

// deviations are the shares by which nodes differ from the median of all, by
// node: the median over the sentinels of its median by the median of the nodes'.
// Nodes without sentinels are not in it, nor any where there is one node only.
func (r *running) deviations() (map[string]float64, error) {
	spec := r.planned.cases.Spec()
	journal, err := r.rc.Store.Journal(sentinelContext(r.Context(spec, r.env)))
	if err != nil {
		return nil, err
	}
	if _, _, err := journal.Refresh(0); err != nil {
		return nil, err
	}
	metric := catalog.SchemaOf(r.job.schema.table).Primary().Name
	seen := map[string]map[string][]float64{} // case (with point) -> node -> values
	for e, err := range journal.All() {
		if err != nil {
			return nil, err
		}
		d, err := decodeEntry(e)
		if err != nil {
			return nil, err
		}
		id := e.ID[strings.LastIndexByte(e.ID, '/')+1:] // of the case: the same on every node
		for i, row := range d.Rows {
			n, isNumber := row[metric].(json.Number)
			node, _ := row[NodeColumn].(string)
			v, err := n.Float64()
			if !isNumber || err != nil || !(v > 0) || node == "" {
				continue
			}
			key := fmt.Sprintf("%s#%d", id, i)
			if seen[key] == nil {
				seen[key] = map[string][]float64{}
			}
			seen[key][node] = append(seen[key][node], v)
		}
	}
	return deviationsOf(seen), nil
}

// deviationsOf judges measurements by case and node.
func deviationsOf(seen map[string]map[string][]float64) map[string]float64 {
	shares := map[string][]float64{}
	for _, nodes := range seen {
		var medians []float64
		for _, values := range nodes {
			medians = append(medians, measure.Median(values))
		}
		if len(medians) < 2 {
			continue
		}
		all := measure.Median(medians)
		for node, values := range nodes {
			shares[node] = append(shares[node], measure.Median(values)/all-1)
		}
	}
	out := map[string]float64{}
	for node, s := range shares {
		out[node] = measure.Median(s)
	}
	return out
}

// compareNodes adds to rows by how much their nodes differ.
func (r *running) compareNodes(rec arrow.Record) (arrow.Record, error) {
	if rec == nil || r.place == nil || r.place.Sentinels == nil || !table.Has(rec, NodeColumn) {
		return rec, nil
	}
	by, err := r.deviations()
	if err != nil {
		return nil, fmt.Errorf("the sentinels cannot be read: %w", err)
	}
	nodes := rec.Column(table.Index(rec, NodeColumn))
	n := int(rec.NumRows())
	share, differs, valid := make([]float64, n), make([]bool, n), make([]bool, n)
	for i := range n {
		if nodes.IsNull(i) {
			continue
		}
		v, ok := by[nodes.ValueStr(i)]
		share[i], valid[i], differs[i] = v, ok, ok && math.Abs(v) > r.place.Sentinels.Limit
	}
	rec = table.WithColumn(rec, DeviationColumn, table.Floats(share, valid))
	rec = table.WithColumn(rec, DiffersColumn, table.Flags(differs, valid))
	for _, node := range slices.Sorted(maps.Keys(by)) {
		if math.Abs(by[node]) > r.place.Sentinels.Limit {
			r.rc.Events.Message(r.rc.Address, "warn", fmt.Sprintf("the node %s differs from the median of all nodes by %+.1f %% (limit %.1f %%): its rows are marked in %s", node, 100*by[node], 100*r.place.Sentinels.Limit, DiffersColumn))
		}
	}
	return rec, nil
}
