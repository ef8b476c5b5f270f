"""Coded messages. Each says what was wrong, what was received and what to do about it.

Codes are grouped: CRF0xx tag schemes, CRF1xx the CRF and the network, CRF2xx Thinc layers and model files, CRF3xx
pipes, CRF4xx file formats and the command line. A code keeps its meaning for good; a retired one is not given again.
"""


class Errors:
    """Message templates of exceptions, to be filled in with `str.format`."""

    CRF001 = "[CRF001] There is no tag scheme {name}. Expected one of {names} (BILUO is another name of BIOES)."
    CRF002 = (
        "[CRF002] The label '{label}' begins with the prefix of a tag scheme. Expected the label alone: give '{bare}', "
        "the prefixes are added by the tag scheme."
    )
    CRF003 = "[CRF003] A label must be a string that is not empty, received {label}. Give a name such as 'PERSON'."
    CRF004 = (
        "[CRF004] The span {span} (start, end, label) does not fit in: the document has {n_tokens} tokens and the span "
        "before it ends at {end}. Spans must hold a token, lie inside of the document and not overlap: filter them "
        "first, e.g. with spacy.util.filter_spans."
    )
    CRF005 = (
        "[CRF005] The tag {tag} is not one of the scheme {name}. Expected one of {expected}, with any label. Choose "
        "the scheme in which the tags are written."
    )
    CRF006 = (
        "[CRF006] The scheme {name} without an outside tag needs a span for every token, but only {covered} of "
        "{n_tokens} tokens have one. Give the missing spans, or use the scheme with an outside tag."
    )
    CRF007 = "[CRF007] The label {label} is not known. Expected one of {labels}. Add the label first."
    CRF008 = (
        "[CRF008] The lengths of the documents add up to {total}, but there are {n_tokens} tag ids. Give the ids of "
        "all documents one after the other, without padding."
    )
    CRF101 = (
        "[CRF101] Document {doc} of the batch has no tag path: every one uses a forbidden move or a tag that is not "
        "possible. Allow at least one path in its masks and transitions."
    )
    CRF102 = (
        "[CRF102] The scores of document {doc} of the batch are NaN, +inf or too large to add up. Expected finite "
        "scores, or -inf where something is forbidden. Look for a diverged training: lower the learning rate or clip "
        "gradients."
    )
    CRF103 = (
        "[CRF103] The {name} given to the CRF has shape {received}, expected {expected}. Potentials, tags and masks "
        "are batch first: (n_docs, n_tokens, n_tags)."
    )
    CRF104 = (
        "[CRF104] The annotated path of document {doc} of the batch uses a forbidden move or a tag that is not "
        "possible, so its loss is infinite. Leave such tags open and use the loss for partial annotation."
    )
    CRF110 = "[CRF110] Dropout was {dropout}. Expected a rate of at least 0 and less than 1: check [training] dropout."
    CRF111 = "[CRF111] The setting {name} was {value}. Expected at least {least}: check [model]."
    CRF112 = "[CRF112] The setting {name} was {value}. Expected a share from 0 to 1: check [model]."
    CRF113 = (
        "[CRF113] {n_attrs} attributes, {n_widths} widths and {n_rows} numbers of rows were given. Expected at least "
        "one attribute, and for each the width and the rows of its table: check attrs, widths and rows in [model]."
    )
    CRF201 = (
        "[CRF201] The network has no weights yet. Train the pipeline, call nlp.initialize(), or load a trained "
        "pipeline with spacy.load()."
    )
    CRF202 = (
        "[CRF202] The weights of the {network} could not be read ({error}). Expected a file that this component wrote "
        "and that is whole: get the model again, or train it again."
    )
    CRF203 = (
        "[CRF203] The weights of the {network} belong to other settings ({differing}). Load the model with the "
        "config.cfg it was saved with."
    )
    CRF204 = (
        "[CRF204] Word vectors are to be used, but the vocabulary has none. Give a pipeline that has them as "
        "[initialize] vectors, or set include_static_vectors = false."
    )
    CRF205 = (
        "[CRF205] The vectors of the vocabulary are {width} wide, and the model was trained on vectors that are "
        "{expected} wide. Load the pipeline with the vectors it was trained with."
    )
    CRF300 = (
        "[CRF300] The labels of the component '{name}' were {labels}, one string. Expected a list: give [{labels}]."
    )
    CRF301 = (
        "[CRF301] The component '{name}' has no labels. Call nlp.initialize() with examples that have entities, give "
        "them under [initialize.components.{name}] labels, or call add_label() for each."
    )
    CRF302 = (
        "[CRF302] The component '{name}' was to be initialized, but no example has a token. Check the training corpus."
    )
    CRF303 = (
        "[CRF303] The stored component uses the tag scheme {stored}, the config says {config}. Load the model with "
        "the config.cfg it was saved with."
    )
    CRF304 = (
        "[CRF304] The model of the component '{name}' could not be loaded: {error} Expected a whole model file of the "
        "architecture that config.cfg describes: get the model again, or load it with the config it was saved with."
    )
    CRF305 = (
        "[CRF305] The model of the component has {nO} tags, its labels ({labels}) make {n_tags}. The files cfg and "
        "model do not belong together: get both from the same saved pipeline."
    )
    CRF310 = (
        "[CRF310] The span {span} is marked as incorrect under the key '{key}', and is an entity of the same "
        "reference. Remove it from either of the two."
    )
    CRF311 = (
        "[CRF311] doc.user_data['{key}'] of a reference must hold a tag or None for each of its {n_tokens} tokens, but "
        "is {value}. Give a list of that length."
    )
    CRF312 = (
        "[CRF312] doc.user_data['{key}'] of a reference must hold the labels that it was annotated for, but is "
        "{value}. Give a list of strings."
    )
    CRF313 = (
        "[CRF313] The component '{name}' cannot rehearse behind the listener '{listener}': the earlier model would "
        "hear the present embedding. Give the component an embedding of its own, e.g. with nlp.replace_listeners, or "
        "leave it out: nlp.rehearse(..., exclude=['{name}'])."
    )
    CRF320 = (
        "[CRF320] The extension attribute {of}._.{name} exists already and cannot hold a value: it has a getter or is "
        "a method. Give another name as prob_attr, or None if no probabilities are wanted."
    )
    CRF321 = (
        "[CRF321] The setting {setting} of the component '{name}' is {value}. Expected a probability between 0 and 1; "
        "spans_threshold must be greater than 0, or None."
    )
    CRF322 = "[CRF322] The number of paths was {n}. Expected at least 1: ask for one path or more."
    CRF330 = (
        "[CRF330] doc.user_data['{key}'] of a reference must hold pairs of an offset in its text (of {length} "
        "characters) and whether a word begins there, but is {value}. Give a list such as [[2, true], [3, false]]."
    )
    CRF331 = (
        "[CRF331] doc.user_data['{key}'] of a reference holds offsets in its text '{reference}', but the predicted "
        "document reads '{predicted}'. Give both the same text."
    )
    CRF332 = (
        "[CRF332] The component '{name}' was to be given the label {label}, but words have no labels. Initialize it "
        "with segmented text instead."
    )
    CRF333 = (
        "[CRF333] The component '{name}' makes new Docs, it cannot set words on the Docs that it reads. Call the "
        "component, its pipe() or its make_words(predictions), and go on with the Docs that these return."
    )
    CRF400 = "[CRF400] The option {name} of the reader is {value}. Expected {expected}."
    CRF401 = (
        "[CRF401] {path}:{line}: the file cannot be read as {encoding} ({error}). Give the encoding in which it is "
        "written (--encoding), or save it as UTF-8."
    )
    CRF402 = (
        "[CRF402] {path}: the {name} column is {column}, but the lines have {n_columns} columns. Give a column from 1"
        " to {n_columns}, or from -1 to -{n_columns} counted from the right."
    )
    CRF403 = (
        "[CRF403] {path}:{line}: {finding}: {found}. Strict reading does not repair anything: correct the file, or "
        "read it with repair."
    )
    CRF404 = (
        "[CRF404] {path}:{line}: expected a token and a tag, separated by a tab or by spaces, but the lines have one "
        "column: {found}. Give the format of the file (--format) if it does not hold tagged tokens."
    )
    CRF405 = (
        "[CRF405] {path}: the tags are not of {name}, the most frequent are {found}. Expected tags such as O, B-PER "
        "and I-PER: choose their column (--tag-column), their scheme (--scheme) or the mark of unknown ones "
        "(--unknown-tag). {hint}"
    )
    CRF406 = (
        "[CRF406] {path}:{line}: expected a line of CoNLL-U, 10 columns separated by tabs of which the first is a "
        "number, a range such as 1-2 or a decimal, found {found}. Correct the line, or give another format "
        "(--format)."
    )
    CRF407 = (
        '[CRF407] {path}:{line}: expected a JSON object with a text, such as {{"text": "...", "entities": '
        '[[0, 4, "ORG"]]}}, found {found}. Correct the line, or give another format (--format).'
    )
    CRF408 = "[CRF408] {path}: there are no tokens in this file. Give a file with annotated text."
    CRF409 = "[CRF409] These files exist already: {paths}. Write to another place, or overwrite them with --force."
    CRF410 = (
        "[CRF410] More than one input would be written to {target}: {paths}. Give a directory as output, and files of"
        " a directory names that differ before the dot."
    )
    CRF411 = (
        "[CRF411] {path}: no file with annotated text, as far as names tell. Expected one of the endings {suffixes}. "
        "Give the file itself if it is named otherwise."
    )
    CRF420 = (
        "[CRF420] {pattern}: there is no such input. Expected a file, a folder or a glob that finds files with one of "
        "the endings {suffixes}, outside of the output's own shards. Check the path, and put quotes around globs."
    )
    CRF421 = (
        "[CRF421] {path}: what kind of file this is cannot be told from its name. Expected one of the endings "
        "{suffixes}. Rename the file, or leave it out."
    )
    CRF422 = (
        "[CRF422] {output}: this cannot be used as output folder ({error}). Expected a folder that can be written to, "
        "or one that can be made: give another path, or change its permissions."
    )
    CRF423 = (
        "[CRF423] {output} holds the output of a run with other settings: {differing}. Give another output folder, go "
        "on with the settings of that run, or throw its output away with --force. Input that was repaired because "
        "documents of it could not be read is accepted with --retry-errors."
    )
    CRF424 = (
        "[CRF424] {output} holds shards or a manifest.json, but nothing that says what they were made of ({error}). "
        "Give another output folder, or throw them away with --force."
    )
    CRF425 = (
        "[CRF425] {output}: another run is writing to this folder. Wait until it has finished, or give another folder."
    )
    CRF426 = (
        "[CRF426] {what} needs {library}, which cannot be imported ({error}). Install it with: pip install "
        "'spacy-bilstm-crf[{extra}]'."
    )
    CRF427 = '[CRF427] The line is no JSON object: {error}. Expected one like {{"text": "..."}}. Correct the line.'
    CRF428 = (
        "[CRF428] The field '{name}' {found}. Expected a string, or a whole number for an id; the fields are: {names}. "
        "Name the field with --text-field or --id-field."
    )
    CRF429 = "[CRF429] The text is not UTF-8 ({error}). Convert the file to UTF-8."
    CRF430 = (
        "[CRF430] The line has {n_bytes} bytes, more than the {max_bytes} within which a text of nlp.max_length "
        "characters must lie. Cut the text, or raise nlp.max_length of the pipeline."
    )
    CRF431 = "[CRF431] {path}: the file cannot be read any further ({error}). Repair the file, and use --retry-errors."
    CRF432 = (
        "[CRF432] The pipeline {model} could not be loaded ({error}). Expected the name of an installed package or the "
        "path of a saved pipeline; give code that it needs with --code."
    )
    CRF433 = (
        "[CRF433] The process that annotated this document ended with {end}, twice. It may need more memory than there "
        "is: cut the text, or use fewer processes (--n-process)."
    )
    CRF434 = (
        "[CRF434] A worker could not go on: {error} What was finished is kept. When the cause is removed (is the "
        "disk full?), give the same command again."
    )
    CRF435 = "[CRF435] The option {name} is {value}. Expected {expected}."
    CRF436 = "[CRF436] There is no column '{column}'. The columns are: {columns}. Name the one that holds it."
    CRF437 = (
        "[CRF437] The table has columns of the names {names} already, which annotate_batch adds. Rename them first."
    )
    CRF438 = "[CRF438] The pipeline left this document out. Look for a component or error handler that drops documents."
    CRF439 = (
        "[CRF439] Ray has stopped ({error}). What was finished is kept. When the cause is removed, give the same "
        "command again; if a document kills its actor, with --engine local, which finds it."
    )
    CRF440 = (
        "[CRF440] Workers keep dying on a part of {path} ({part}; the last ended with {end}). What was finished is "
        "kept. Is there enough memory for --n-process workers? Give the same command again, with fewer."
    )
    CRF441 = "[CRF441] A value of this row cannot be read ({error}). Correct it, or leave its column out of the file."
    CRF442 = "[CRF442] {path}: the code cannot be read ({error}). Give the path of a Python file with --code."
    CRF443 = (
        "[CRF443] The documents of {part} have ended {n_attempts} processes. --engine local finds out which of them "
        "does, puts it into errors.jsonl and goes on."
    )
    CRF445 = (
        "[CRF445] {path}: the pipeline has no component{name} with the factory ner_crf; there are: {names}. Give a "
        "config with such a component, and its name with --component."
    )
    CRF470 = (
        "[CRF470] The pipeline has no single component ner_crf that is called {name}. Its components of this kind: "
        "{names}. Choose one of them with --component, or give another pipeline."
    )
    CRF471 = "[CRF471] {path} exists already. Give another place, or overwrite it with --force."
    CRF472 = (
        "[CRF472] The model predicts {n_entities} entities on annotated text of {path}. Expected at least {least}: "
        "give more annotated text that it was not trained on."
    )
    CRF473 = (
        "[CRF473] {path}:{line}: {found}. Expected {expected}: repair the line, or name the field with --text-field."
    )
    CRF474 = "[CRF474] There is no text in {path}. Give a file with a text on each line."
    CRF475 = "[CRF475] The text has no tokens. Give a sentence of at least one word."
    CRF476 = "[CRF476] Texts cannot be ranked by {by}. Expected one of {expected}: give one of these with --by."
    CRF477 = (
        "[CRF477] The report needs {package} ({error}). Install what it needs: pip install 'spacy-bilstm-crf[report]'."
    )
    CRF480 = (
        "[CRF480] Word vectors ({vectors}) and a transformer ({transformer}) were given. The recognizer reads either "
        "of them: give --vectors or --transformer."
    )
    CRF481 = (
        "[CRF481] The language {lang} is not one of spaCy's. Expected a code such as en, or xx for text of many "
        "languages: give it with --lang."
    )
    CRF482 = (
        "[CRF482] The pipeline {name} {found}. Expected the name of an installed package or the path of a saved "
        "pipeline with word vectors: give another one with --vectors, or make one with `python -m spacy init vectors`."
    )


class Warnings:
    """Message templates of warnings, to be filled in with `str.format`."""

    CRF350 = (
        "[CRF350] {n_entities} gold entities of a batch for the component '{name}' have a label it does not know, "
        "begin or end on white space, or cross a sentence start. They are read as missing annotation. Check the "
        "corpus; this is said once."
    )
    CRF351 = (
        "[CRF351] {n_tags} single tags of a batch for the component '{name}' have a label it does not know, or "
        "contradict the tags around them so that no tag path has them. They are read as missing annotation. Check the "
        "tags and their scheme; this is said once."
    )
    CRF352 = (
        "[CRF352] {n_borders} word borders of a batch for the component '{name}' fall inside of a token, a number, a "
        "word in Latin letters or the like, where no word can begin. They cannot be learnt. Check the corpus and the "
        "tokenizer; this is said once."
    )
    CRF353 = (
        "[CRF353] The documents that the component '{name}' is to segment have the words of the references as tokens "
        "already. Use a tokenizer that gives characters, and make references with `spaces`, e.g. "
        "Doc(vocab, words=words, spaces=[False] * len(words)) for text without spaces."
    )
    CRF450 = (
        "[CRF450] {path}: {n_long} of {n_sents} sentences are longer than {max_tokens} tokens (the longest has "
        "{longest}). They were cut, not inside of entities, which makes {n_pieces} pieces in all. Set another limit "
        "with max_tokens (--max-tokens), 0 for none, or mark the sentences with blank lines."
    )
