package tree

import "go.yaml.in/yaml/v3"

// Provenances of a sidecar. Readers of the files know legacy, which says that
// nothing is known, and take every other word as it is.
const (
	Legacy    = "legacy"
	Collected = "collected" // every row was measured for this table
	Imported  = "imported"  // every row comes from a file that was there before
	Mixed     = "mixed"
)

// OriginOf says where the rows of one table come from: Collected, Imported or
// Mixed, and "" where the sidecar does not say. Entries without counts are
// collected, unless the sidecar says nothing at all or is a legacy one.
func (m *Meta) OriginOf(table string) string {
	t, ok := m.Tables[table]
	switch {
	case !ok:
		return ""
	case t.CollectedRows != nil || t.ImportedRows != nil || t.UnknownRows != nil:
		return t.origin()
	case m.Provenance == "" || m.Provenance == Legacy:
		return ""
	}
	return Collected
}

func (t TableMeta) origin() string {
	has := func(n *int64) bool { return n != nil && *n > 0 }
	switch {
	case has(t.UnknownRows) || has(t.CollectedRows) && has(t.ImportedRows):
		return Mixed
	case has(t.ImportedRows):
		return Imported
	}
	return Collected
}

// Together is the provenance of all tables: theirs where they agree, else
// Mixed. A sidecar that says nothing keeps its silence until a table is known
// to hold other rows than collected ones.
func (m *Meta) Together() string {
	words, silent := map[string]bool{}, false
	for name := range m.Tables {
		if w := m.OriginOf(name); w != "" {
			words[w] = true
		} else {
			silent = true
		}
	}
	switch {
	case words[Mixed], words[Imported] && (words[Collected] || silent):
		return Mixed
	case words[Imported]:
		return Imported
	case words[Collected] && (m.Provenance == Imported || m.Provenance == Mixed):
		return Collected
	}
	return m.Provenance
}

// setProvenance sets the word, after schema_version if it is new.
func setProvenance(root *yaml.Node, word string) {
	if node := child(root, "provenance"); node != nil {
		node.SetString(word)
		return
	}
	at := 0
	for i := 0; i < len(root.Content); i += 2 {
		if root.Content[i].Value == "schema_version" {
			at = i + 2
		}
	}
	key, value := &yaml.Node{}, &yaml.Node{}
	key.SetString("provenance")
	value.SetString(word)
	root.Content = append(root.Content[:at:at], append([]*yaml.Node{key, value}, root.Content[at:]...)...)
}
