/* SPDX-License-Identifier: MIT */
#include "tools/output/where.h"

#include <ctype.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats/units.h"
#include "tools/cli/exits.h"

#define NODES_MAX 64
#define WORD_MAX  256
#define NANO      1e9

enum node_kind { NODE_OR, NODE_AND, NODE_NOT, NODE_COMPARE };

/* The results of a comparison, as bits. */
enum { LESS = 1, EQUAL = 2, MORE = 4, LIKE = 8, UNLIKE = 16 };

/* What a sign accepts. A sign stands before those that are a prefix of it. */
static const struct {
	const char *sign;
	unsigned accepted;
} signs[] = {
	{"==", EQUAL}, {"!=", LESS | MORE}, {"<=", LESS | EQUAL}, {">=", MORE | EQUAL},
	{"=~", LIKE},  {"!~", UNLIKE},      {"<", LESS},          {">", MORE},
};

struct node {
	enum node_kind kind;
	int left, right; /* NODE_NOT: only left */
	size_t column;
	unsigned accepted;
	double number; /* to compare a column of numbers with */
	char *text;    /* to compare a column of texts with */
	regex_t regex; /* =~ and !~ */
	bool has_regex;
};

struct cm_where {
	struct node node[NODES_MAX];
	int nodes;
	int root;
};

struct parser {
	const struct cm_column_set *column_set;
	const char *option;
	const char *whole;
	const char *at;
	struct cm_where *where;
};

static int complain(const struct parser *parser, const char *wanted)
{
	if (*parser->at)
		cm_complain("--%s '%s': want %s at '%s'", parser->option, parser->whole, wanted,
			    parser->at);
	else
		cm_complain("--%s '%s': want %s at its end", parser->option, parser->whole, wanted);
	return -CM_EXIT_USAGE;
}

static void skip_blanks(struct parser *parser)
{
	parser->at += strspn(parser->at, " \t\n");
}

static bool take_sign(struct parser *parser, const char *sign)
{
	skip_blanks(parser);
	if (strncmp(parser->at, sign, strlen(sign)) != 0)
		return false;
	parser->at += strlen(sign);
	return true;
}

/* The index of a new node, or a negative exit code. */
static int add_node(struct parser *parser, enum node_kind kind, int left, int right)
{
	struct cm_where *where = parser->where;

	if (left < 0 || right < 0)
		return left < 0 ? left : right;
	if (where->nodes == NODES_MAX) {
		cm_complain("--%s '%s': more than %d conditions", parser->option, parser->whole,
			    NODES_MAX / 2);
		return -CM_EXIT_USAGE;
	}
	where->node[where->nodes] = (struct node){.kind = kind, .left = left, .right = right};
	return where->nodes++;
}

/* The length of a word: letters, digits and other characters of column names and values. */
static size_t word_length(const char *text)
{
	size_t n = 0;

	while (isalnum((unsigned char)text[n]) || (text[n] && strchr("_/%.:-+", text[n])))
		n++;
	return n;
}

static int take_word(struct parser *parser, const char *wanted, char *word)
{
	const char quote = *parser->at;
	const char *end;
	size_t n;

	if (quote == '"' || quote == '\'') {
		end = strchr(++parser->at, quote);
		n = end ? (size_t)(end - parser->at) : 0;
		if (!end)
			return complain(parser, "the closing quote");
	} else {
		n = word_length(parser->at);
		end = parser->at + n;
		if (!n)
			return complain(parser, wanted);
	}
	if (n >= WORD_MAX)
		return complain(parser, "a shorter text");
	memcpy(word, parser->at, n);
	word[n] = '\0';
	parser->at = end + (quote == '"' || quote == '\'');
	return 0;
}

static bool parse_number(const char *word, double *ret_number)
{
	static const char units[] = "KMGT";
	const size_t n = strlen(word);
	const char *unit = n ? strchr(units, toupper((unsigned char)word[n - 1])) : NULL;
	const bool negative = *word == '-';
	char digits[WORD_MAX];
	uint64_t nano, whole;

	(void)snprintf(digits, sizeof(digits), "%.*s", (int)(n - (unit != NULL) - negative),
		       word + negative);
	if (!unit && digits[0] && digits[strlen(digits) - 1] == '%')
		digits[strlen(digits) - 1] = '\0';
	/* Counters and sizes may exceed the range of cm_decimal_parse(). */
	if (!cm_number_parse(digits, INT64_MAX, &whole))
		*ret_number = (double)whole;
	else if (!cm_decimal_parse(digits, 0, &nano))
		*ret_number = (double)nano / NANO;
	else
		return false;
	if (unit)
		*ret_number *= (double)(UINT64_C(1024) << (10 * (unit - units)));
	if (negative)
		*ret_number = -*ret_number;
	return true;
}

static int fill_regex(const struct parser *parser, struct node *node, const char *word)
{
	char why[128];
	int err = regcomp(&node->regex, word, REG_EXTENDED | REG_NOSUB);

	if (err) {
		(void)regerror(err, &node->regex, why, sizeof(why));
		cm_complain("--%s '%s': '%s' is not a regular expression: %s", parser->option,
			    parser->whole, word, why);
		return -CM_EXIT_USAGE;
	}
	node->has_regex = true;
	return 0;
}

static int fill_compare(const struct parser *parser, struct node *node, const char *word)
{
	const struct cm_column *column = &parser->column_set->columns[node->column];

	if (node->accepted & (LIKE | UNLIKE))
		return fill_regex(parser, node, word);
	if (column->align == CM_ALIGN_RIGHT && !parse_number(word, &node->number)) {
		cm_complain("--%s '%s': %s is a number, '%s' is not", parser->option, parser->whole,
			    column->name, word);
		return -CM_EXIT_USAGE;
	}
	node->text = strdup(word);
	return node->text ? 0 : complain(parser, "more memory on the host");
}

static int parse_compare(struct parser *parser)
{
	struct node node = {.kind = NODE_COMPARE};
	char word[WORD_MAX];
	size_t i;
	int err, index;

	skip_blanks(parser);
	err = take_word(parser, "a column", word);
	if (err)
		return err;
	err = cm_column_set_find(parser->column_set, word, &node.column);
	if (err)
		return -err;
	for (i = 0; i < sizeof(signs) / sizeof(signs[0]) && !take_sign(parser, signs[i].sign); i++)
		;
	if (i == sizeof(signs) / sizeof(signs[0]))
		return complain(parser, "one of == != < <= > >= =~ !~");
	node.accepted = signs[i].accepted;
	skip_blanks(parser);
	err = take_word(parser, "a value", word);
	if (err)
		return err;
	index = add_node(parser, NODE_COMPARE, 0, 0);
	if (index < 0)
		return index;
	parser->where->node[index] = node;
	err = fill_compare(parser, &parser->where->node[index], word);
	return err ? err : index;
}

static int parse_or(struct parser *parser, unsigned depth);

static int parse_not(struct parser *parser, unsigned depth)
{
	int node;

	if (depth > NODES_MAX)
		return complain(parser, "fewer parentheses");
	skip_blanks(parser);
	if (take_sign(parser, "!"))
		return add_node(parser, NODE_NOT, parse_not(parser, depth + 1), 0);
	if (!take_sign(parser, "("))
		return parse_compare(parser);
	node = parse_or(parser, depth + 1);
	if (node >= 0 && !take_sign(parser, ")"))
		return complain(parser, "')'");
	return node;
}

static int parse_and(struct parser *parser, unsigned depth)
{
	int node = parse_not(parser, depth);

	while (node >= 0 && take_sign(parser, "&&"))
		node = add_node(parser, NODE_AND, node, parse_not(parser, depth));
	return node;
}

static int parse_or(struct parser *parser, unsigned depth)
{
	int node = parse_and(parser, depth);

	while (node >= 0 && take_sign(parser, "||"))
		node = add_node(parser, NODE_OR, node, parse_and(parser, depth));
	return node;
}

int cm_where_parse(const struct cm_column_set *column_set, const char *option, const char *text,
		   struct cm_where **ret_where)
{
	struct parser parser = {
		.column_set = column_set, .option = option, .whole = text, .at = text};

	parser.where = calloc(1, sizeof(*parser.where));
	if (!parser.where)
		return cm_fail_memory();
	parser.where->root = parse_or(&parser, 0);
	skip_blanks(&parser);
	if (parser.where->root >= 0 && *parser.at)
		parser.where->root = complain(&parser, "&&, || or nothing more");
	if (parser.where->root < 0) {
		const int exit = -parser.where->root;

		cm_where_free(parser.where);
		return exit;
	}
	*ret_where = parser.where;
	return 0;
}

void cm_where_free(struct cm_where *where)
{
	int i;

	if (!where)
		return;
	for (i = 0; i < where->nodes; i++) {
		free(where->node[i].text);
		if (where->node[i].has_regex)
			regfree(&where->node[i].regex);
	}
	free(where);
}

/* How the value stands to that of the node: LESS, EQUAL or MORE. */
static unsigned order_of(const struct node *node, const struct cm_value *value)
{
	double difference;

	if (value->kind == CM_VALUE_TEXT)
		difference = strcmp(value->text, node->text);
	else if (value->kind == CM_VALUE_REAL)
		difference = value->real - node->number;
	else
		difference = (double)value->number - node->number;
	return difference < 0 ? LESS : difference > 0 ? MORE : EQUAL;
}

static bool is_like(const struct node *node, const struct cm_value *value)
{
	char number[32];

	if (value->kind == CM_VALUE_TEXT)
		return !regexec(&node->regex, value->text, 0, NULL, 0);
	if (value->kind == CM_VALUE_REAL)
		(void)snprintf(number, sizeof(number), "%.3f", value->real);
	else
		(void)snprintf(number, sizeof(number), "%lld", (long long)value->number);
	return !regexec(&node->regex, number, 0, NULL, 0);
}

static bool compare(const struct node *node, const struct cm_value *value)
{
	if (value->kind == CM_VALUE_NONE)
		return false;
	if (node->accepted & (LIKE | UNLIKE))
		return is_like(node, value) == (node->accepted == LIKE);
	return node->accepted & order_of(node, value);
}

static bool holds(const struct cm_where *where, int index, const struct cm_value *values)
{
	const struct node *node = &where->node[index];

	switch (node->kind) {
	case NODE_OR:
		return holds(where, node->left, values) || holds(where, node->right, values);
	case NODE_AND:
		return holds(where, node->left, values) && holds(where, node->right, values);
	case NODE_NOT:
		return !holds(where, node->left, values);
	case NODE_COMPARE:
		break;
	}
	return compare(node, &values[node->column]);
}

bool cm_where_holds(const struct cm_where *where, const struct cm_value *values)
{
	return !where || holds(where, where->root, values);
}

bool cm_where_wants(const struct cm_where *where, size_t column)
{
	int i;

	for (i = 0; where && i < where->nodes; i++)
		if (where->node[i].kind == NODE_COMPARE && where->node[i].column == column)
			return true;
	return false;
}
