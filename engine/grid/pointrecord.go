package grid

import "github.com/apache/arrow/go/v17/arrow"

// PointRecord is the table of the cases with one row a point of their sweeps:
// case_id is the point's, and the swept parameters are columns behind the case's
// own (or in their place, where they have one's name). Without a sweep it is
// Record.
func (c *Cases) PointRecord() arrow.Record {
	if c.SweepColumns() == nil {
		return c.Record()
	}
	flat := &Cases{spec: c.spec, n: c.Rows()}
	rows := make([]int32, 0, flat.n)
	for i := range c.n {
		for range c.Sweep(i).Len() {
			rows = append(rows, int32(i))
		}
		for _, id := range c.PointIDs(i) {
			flat.idBytes = append(flat.idBytes, id...)
		}
	}
	flat.idOnce.Do(func() {}) // makeRecord reads the bytes alone
	swept := map[string]bool{}
	for at, name := range c.SweepColumns() {
		swept[name] = true
		flat.columns = append(flat.columns, c.sweptColumn(at, name))
	}
	var own []column
	for _, k := range c.columns {
		if swept[k.name] {
			continue
		}
		k.ids = pick(k.ids, rows)
		if len(rows) == 0 {
			k.ids = nil
		}
		own = append(own, k)
	}
	flat.columns = append(own, flat.columns...)
	return flat.makeRecord()
}

// sweptColumn is a swept parameter over all points of all cases.
func (c *Cases) sweptColumn(at int, name string) column {
	k := column{name: name}
	offset := make([]int32, len(c.sweep.lists))
	for i, list := range c.sweep.lists {
		offset[i] = int32(len(k.dict))
		k.dict = append(k.dict, list.cols[at].dict...)
	}
	k.kind, _ = columnKind(k.dict)
	for i := range c.n {
		list := c.sweep.of[i]
		for _, id := range c.sweep.lists[list].cols[at].ids {
			k.ids = append(k.ids, offset[list]+id)
		}
	}
	return k
}
