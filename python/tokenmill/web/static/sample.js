// What the playground opens with: the same thought in several scripts, digits and code; and a conversation.

export const SAMPLE = `The mill by the river turns 1,974 sacks of grain into flour.
강가의 방앗간은 곡식 1,974자루를 밀가루로 빻는다.
河边的磨坊把1974袋谷物磨成面粉。
川辺の水車小屋は穀物を粉にひく。
Мельница у реки превращает зерно в муку. 🌾
for (let sack = 0; sack < 1974; sack++) { grind(sack); }`;

export const CONVERSATION = `system: You answer in one sentence.
user: What does the mill do?
assistant: It turns 1,974 sacks of grain into flour.
user: 방앗간은 언제 쉬나요?
assistant: 강물이 얼면 쉽니다.`;
