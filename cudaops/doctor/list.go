package doctor

// Limits are the attributes of a check. Each method returns the value of an attribute, or def if it is not set.
type Limits interface {
	Number(name string, def float64) float64
	Text(name, def string) string
	Bool(name string, def bool) bool
}

// Check is a check of the GPUs of a machine.
type Check struct {
	Name, Summary string
	// Attributes are the names of its limits.
	Attributes []string
	// Advice is true if a machine that fails the check is fit for measuring nevertheless.
	Advice bool
	Run    func(n *Node, l Limits) []Finding
}

// Checks returns the checks of the doctor command and of preflights, in order.
func Checks() []Check {
	return []Check{
		{Name: "gpus", Summary: "number and name of the GPUs, compared with the system", Attributes: []string{
			// count is the exact number of GPUs. The default is any.
			"count",
			// min is the smallest accepted number of GPUs.
			"min",
			// name (string) is a word in the device's name. The default is what the system requires.
			"name"},
			Run: func(n *Node, l Limits) []Finding {
				return n.GPUs(int(l.Number("count", 0)), int(l.Number("min", 0)), l.Text("name", ""))
			}},
		{Name: "exclusive", Summary: "no compute process of other programs on the GPUs",
			Run: func(n *Node, _ Limits) []Finding { return n.Exclusive() }},
		{Name: "persistence", Summary: "the driver stays loaded between processes", Attributes: []string{
			// apply (bool) switches persistence on; this needs root. The default is false.
			"apply"},
			Advice: true,
			Run:    func(n *Node, l Limits) []Finding { return n.Persistence(l.Bool("apply", false)) }},
		// Measurements wait for the clock, so unlocked clocks are only not optimal.
		{Name: "clocks", Summary: "SM clocks locked or at their maximum", Attributes: []string{
			// apply (bool) locks the clocks at their maximum; this needs root. The default is false.
			"apply"}, Advice: true,
			Run: func(n *Node, l Limits) []Finding { return n.Clocks(l.Bool("apply", false)) }},
		{Name: "throttle", Summary: "no thermal or power slowdown at this moment",
			Run: func(n *Node, _ Limits) []Finding { return n.Throttle() }},
		{Name: "temperature", Summary: "GPUs are below a temperature", Attributes: []string{
			// max_celsius (number, °C) is the limit. The default is 75.
			"max_celsius"},
			Run: func(n *Node, l Limits) []Finding {
				return n.Temperature(int(l.Number("max_celsius", DefaultMaxTemperature)))
			}},
		{Name: "ecc", Summary: "ECC is on and has no uncorrectable errors", Attributes: []string{
			// enabled (bool) is the required state of ECC. The default is true.
			"enabled"},
			Run: func(n *Node, l Limits) []Finding { return n.ECC(l.Bool("enabled", true)) }},
		{Name: "mig", Summary: "GPUs are whole, not partitioned", Run: func(n *Node,
			_ Limits) []Finding {
			return n.MIG()
		}},
	}
}

// defaults are the limits of a check without attributes.
type defaults struct{}

func (defaults) Number(_ string, def float64) float64 { return def }
func (defaults) Text(_, def string) string            { return def }
func (defaults) Bool(_ string, def bool) bool         { return def }
