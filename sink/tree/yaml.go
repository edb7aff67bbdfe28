package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
)

// decodeOne reads a file of one YAML document. Of several the first alone would be
// read, and the others would be gone once the file is written again. With known, keys
// that dst does not have are errors. A key that is null, empty or no scalar is an error,
// because a map with keys of texts would drop its entry.
func decodeOne(data []byte, dst any, known bool) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return err
	}
	if err := checkKeys(&doc); err != nil {
		return err
	}

	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(known)
	if err := d.Decode(dst); err != nil {
		if errors.Is(err, io.EOF) {
			return nil // only comments; the caller reports what is missing
		}

		return err
	}

	var next yaml.Node
	if err := d.Decode(&next); !errors.Is(err, io.EOF) {
		return errors.New("it contains several YAML documents (---), and readers take one")
	}

	return nil
}

// checkKeys returns an error for a key of a mapping in n that is no text, number or boolean.
func checkKeys(n *yaml.Node) error {
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && (c.Kind == yaml.MappingNode || c.Kind == yaml.SequenceNode ||
			c.Kind == yaml.ScalarNode && (c.ShortTag() == "!!null" || c.Value == "")) {
			return fmt.Errorf("line %d: a key is null, empty or no scalar; write a name before the colon", c.Line)
		}
		if err := checkKeys(c); err != nil {
			return err
		}
	}

	return nil
}

// checkAliases returns an error for an alias or a merge in n: a change of its content would change other places too.
func checkAliases(n *yaml.Node) error {
	if n.Kind == yaml.AliasNode || n.ShortTag() == "!!merge" {
		return fmt.Errorf("line %d: it has an alias (*) or a merge (<<), which cannot be updated; write the content there",
			n.Line)
	}
	for _, c := range n.Content {
		if err := checkAliases(c); err != nil {
			return err
		}
	}

	return nil
}

// edited returns the text of a YAML file after change was applied to its root, which is a mapping or null. Comments
// stay. Aliases and merges are errors.
func edited(data []byte, change func(root *yaml.Node)) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}

	if len(doc.Content) == 0 { // the file has only comments
		return edited(append(bytes.Clone(data), "\n{}\n"...), change)
	}
	if err := checkAliases(&doc); err != nil {
		return nil, err
	}

	root := doc.Content[0]
	root.Kind, root.Tag, root.Value = yaml.MappingNode, "!!map", ""
	change(root)
	return encode(&doc), nil
}

// nodeOf returns v as a node. v consists of texts, numbers and structs of them.
func nodeOf(v any) *yaml.Node {
	var node yaml.Node
	if err := node.Encode(v); err != nil {
		panic(err)
	}
	return &node
}

// insert puts a new key at a place in a mapping.
func insert(m *yaml.Node, at int, key string, value *yaml.Node) {
	m.Content = slices.Insert(m.Content, at, nodeOf(key), value)
}

// mapping returns the mapping below a key and creates it if it is missing.
func mapping(parent *yaml.Node, key string) *yaml.Node {
	node := child(parent, key)
	if node == nil {
		node = &yaml.Node{}
		insert(parent, len(parent.Content), key, node)
	}
	if node.Kind != yaml.MappingNode {
		*node = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	}
	return node
}

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
