package tree

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// setFields brings a mapping of a sidecar up to date in place: known keys get
// the values of now or go, the others stay, and so do all comments and the order.
func setFields(old, now *yaml.Node, known []string) {
	rest := old.Content[:0:0]
	for i := 0; i+1 < len(old.Content); i += 2 {
		key, value := old.Content[i], old.Content[i+1]
		if next := child(now, key.Value); next != nil {
			assign(value, next)
		} else if slices.Contains(known, key.Value) {
			continue
		}
		rest = append(rest, key, value)
	}

	old.Content = rest
	for i := 0; i+1 < len(now.Content); i += 2 {
		if child(old, now.Content[i].Value) == nil {
			old.Content = append(old.Content, now.Content[i], now.Content[i+1])
		}
	}
}

// assign gives a node another value and leaves its comments.
func assign(node, value *yaml.Node) {
	if node.Kind == yaml.ScalarNode && value.Kind == yaml.ScalarNode && node.Value == value.Value &&
		node.ShortTag() == value.ShortTag() {
		return
	}
	node.Kind, node.Tag, node.Value = value.Kind, value.Tag, value.Value
	node.Style, node.Content, node.Alias = value.Style, value.Content, nil
}
