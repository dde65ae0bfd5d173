"""Named points of the photographs, placed by hand: x, y in pixels of the picture, 0-based.

*Near* legs, ears and feet are those towards the camera, *far* ones those behind. A part that is hidden, cut off or
not to be told apart has no point.
"""

QUADRUPED = (
    "nose",  # foremost point of the muzzle, at the nostril
    "eye",
    "ear",  # tip of the near ear
    "withers",  # where the top line of the neck meets the back
    "back",  # top line, halfway between withers and tail root
    "tail_root",
    "chest",  # front of the breast, at the shoulder joint
    "belly",  # under line, halfway between near front and near hind leg
    "near_front_knee",
    "far_front_knee",
    "near_hind_hock",
    "far_hind_hock",
    "near_front_hoof",
    "far_front_hoof",
    "near_hind_hoof",
    "far_hind_hoof",
)
BIRD = (
    "beak",  # tip
    "eye",
    "crown",  # highest point of the head
    "back",  # top line, halfway between nape and rump
    "breast",  # where it bulges most
    "tail",  # tip
    "near_foot",  # where the leg meets the toes
    "far_foot",
)
# Pairs of 1-based positions in the tuples above, for drawing.
QUADRUPED_LINKS = [
    [1, 2], [2, 3], [2, 4], [4, 5], [5, 6], [1, 7], [7, 8],
    [7, 9], [9, 13], [7, 10], [10, 14], [6, 11], [11, 15], [6, 12], [12, 16],
]  # fmt: skip
BIRD_LINKS = [[1, 2], [2, 3], [3, 4], [4, 6], [1, 5], [5, 7], [5, 8]]

POINTS: dict[str, dict[str, tuple[int, int]]] = {
    "horse": {
        "nose": (497, 157), "eye": (476, 111), "ear": (479, 68), "withers": (302, 102), "back": (198, 107),
        "tail_root": (93, 114), "chest": (358, 200), "belly": (222, 229),
        "near_front_knee": (324, 288), "far_front_knee": (300, 272), "near_hind_hock": (95, 262),
        "far_hind_hock": (123, 268), "near_front_hoof": (338, 353), "far_front_hoof": (304, 354),
        "near_hind_hoof": (106, 361), "far_hind_hoof": (149, 346),
    },
    "zebra": {
        "nose": (71, 160), "eye": (110, 115), "ear": (108, 69), "withers": (225, 130), "back": (334, 123),
        "tail_root": (445, 141), "chest": (189, 224), "belly": (305, 246),
        "near_front_knee": (219, 288), "far_front_knee": (237, 288), "near_hind_hock": (438, 268),
        "near_front_hoof": (211, 350), "far_front_hoof": (230, 341), "near_hind_hoof": (427, 355),
    },
    "donkey": {
        "nose": (65, 188), "eye": (96, 136), "ear": (64, 55), "withers": (224, 131), "back": (328, 128),
        "tail_root": (432, 148), "chest": (183, 229), "belly": (293, 261),
        "near_front_knee": (209, 303), "near_hind_hock": (408, 287),
        "near_front_hoof": (194, 367), "near_hind_hoof": (398, 356), "far_hind_hoof": (367, 345),
    },
    "cow": {
        "nose": (481, 174), "eye": (438, 135), "ear": (393, 106), "withers": (298, 135), "back": (200, 141),
        "tail_root": (103, 137), "chest": (374, 226), "belly": (215, 268),
        "near_front_knee": (311, 302), "far_front_knee": (329, 294), "near_hind_hock": (94, 280),
        "far_hind_hock": (154, 294), "near_front_hoof": (317, 356), "far_front_hoof": (331, 345),
        "near_hind_hoof": (96, 352), "far_hind_hoof": (175, 343),
    },
    "bison": {
        "nose": (498, 231), "eye": (460, 190), "withers": (372, 92), "back": (261, 107), "tail_root": (151, 142),
        "chest": (424, 251), "belly": (272, 255),
        "near_front_knee": (364, 290), "near_hind_hock": (160, 274), "far_hind_hock": (185, 273),
        "near_front_hoof": (371, 335), "far_front_hoof": (356, 329), "near_hind_hoof": (177, 346),
        "far_hind_hoof": (197, 336),
    },
    "gnu": {
        "nose": (66, 235), "eye": (100, 151), "ear": (161, 150), "withers": (262, 81), "back": (379, 97),
        "tail_root": (497, 127), "chest": (222, 243), "belly": (343, 254),
        "near_front_knee": (267, 322), "far_front_knee": (250, 314), "near_hind_hock": (468, 298),
        "far_hind_hock": (510, 279), "near_front_hoof": (261, 422), "far_front_hoof": (243, 407),
        "near_hind_hoof": (409, 417), "far_hind_hoof": (492, 406),
    },
    "chamois": {
        "nose": (405, 175), "eye": (377, 149), "withers": (294, 190), "back": (214, 190),
        "tail_root": (134, 210), "chest": (335, 252), "belly": (237, 301),
        "near_front_knee": (301, 358), "far_front_knee": (246, 357), "near_hind_hock": (101, 331),
        "far_hind_hock": (139, 348), "near_front_hoof": (311, 414), "far_front_hoof": (228, 415),
        "near_hind_hoof": (103, 419), "far_hind_hoof": (165, 417),
    },
    "wapiti": {
        "nose": (94, 247), "eye": (126, 226), "ear": (174, 193), "withers": (250, 219), "back": (340, 219),
        "tail_root": (430, 239), "chest": (212, 298), "belly": (330, 321),
        "near_front_knee": (284, 364), "far_front_knee": (210, 358), "near_hind_hock": (450, 321),
        "far_hind_hock": (425, 342), "near_front_hoof": (298, 408), "far_front_hoof": (190, 413),
        "near_hind_hoof": (464, 405), "far_hind_hoof": (401, 410),
    },
    "lion": {
        "nose": (74, 174), "eye": (104, 152), "back": (380, 117), "tail_root": (498, 155), "belly": (335, 269),
        "near_front_knee": (219, 318), "far_front_knee": (263, 316), "near_hind_hock": (486, 303),
        "near_front_hoof": (196, 344), "far_front_hoof": (258, 338), "near_hind_hoof": (425, 354),
        "far_hind_hoof": (388, 341),
    },
    "blackbird": {
        "beak": (443, 103), "eye": (382, 113), "crown": (377, 89), "back": (246, 181), "breast": (410, 175),
        "tail": (69, 279), "near_foot": (332, 320), "far_foot": (302, 314),
    },
    "crow": {
        "beak": (67, 102), "eye": (118, 83), "crown": (131, 63), "back": (245, 141), "breast": (112, 155),
        "tail": (423, 244), "near_foot": (183, 329), "far_foot": (227, 300),
    },
    "duck": {
        "beak": (438, 115), "eye": (383, 74), "crown": (368, 59), "back": (200, 201), "breast": (388, 214),
        "tail": (62, 273), "near_foot": (241, 357), "far_foot": (253, 330),
    },
    "pigeon": {
        "beak": (77, 129), "eye": (106, 93), "crown": (110, 78), "back": (240, 176), "breast": (129, 207),
        "tail": (430, 315), "near_foot": (191, 310),
    },
    "lark": {
        "beak": (431, 149), "eye": (385, 152), "crown": (387, 128), "back": (278, 200), "breast": (427, 202),
        "tail": (136, 328), "near_foot": (326, 331), "far_foot": (377, 308),
    },
}  # fmt: skip
