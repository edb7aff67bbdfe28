package catalog

// Schema lists the metrics of a table.
type Schema struct {
	// Metrics are the measured columns. The first is the primary one: rows are
	// compared by it, and every row has it.
	Metrics []Column
}

// SchemaOf is the schema of a table's rows; of ops without a table it is a
// latency in milliseconds.
func SchemaOf(table string) *Schema {
	return (*Catalog)(nil).SchemaOf(table)
}

// Schema is what the table's rows are measured for.
func (t *Table) Schema() *Schema {
	s := &Schema{}
	for _, c := range t.columns {
		if c.Role == Metric {
			c.Zero = c.Zero || t.ZeroLegal && len(s.Metrics) == 0
			s.Metrics = append(s.Metrics, c)
		}
	}
	return s
}

// Primary is the metric that rows are compared by.
func (s *Schema) Primary() Column { return s.Metrics[0] }

// Required are the names of the metrics that every row has.
func (s *Schema) Required() []string {
	var out []string
	for _, c := range s.Metrics {
		if !c.Lacking {
			out = append(out, c.Name)
		}
	}
	return out
}
